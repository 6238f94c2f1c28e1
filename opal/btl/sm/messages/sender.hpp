// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/sender.hpp — sends active messages: through the fast box, else in a fragment that the peer's
// FIFO announces.  Owned by the module.  Threads: as the module; try_send_concurrent() needs only the send lock.
#pragma once
#include "opal/btl/fragment.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/messages/back_pressure.hpp"
#include "opal/btl/sm/messages/memory/fragment_pool.hpp"
#include "opal/btl/sm/messages/message_peers.hpp"
#include "opal/btl/tag.hpp"

namespace opal::btl::sm {

class Sender {
 public:
  Sender(const Config& config, MessagePeers& peers, BackPressure& back_pressure) noexcept
      : config_(config), peers_(peers), back_pressure_(back_pressure) {}

  // Contracts: as the functions of btl::Module with these names.

  /// send_inline() after the module's attempt by try_send_concurrent(); under a send lock it includes the attempt.
  Post send_slow(MessagePeer& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  /// btl::Module::send_beside(): uses only the fast box.  Returns `again` for everything else, also for errors, which
  /// send_inline() reports under the module's lock.
  [[gnu::always_inline]] static Post try_send_concurrent(MessagePeer& to, Tag tag, ByteSpan header,
                                                         ByteSpan payload) noexcept {
    const bool sent = is_tag(tag) && to.push(tag, header, payload);
    return sent ? Post::done : Post::again;
  }
  Fragment alloc(MessagePeer& to, std::size_t size) noexcept;
  Post send(Fragment& fragment, Tag tag) noexcept;
  static void free(Fragment& fragment) noexcept;

 private:
  // Require: the caller holds the send lock, if there is one.
  Post send_by_fifo(MessagePeer& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  Post post_fragment(MessagePeer& to, FragmentRef fragment, Tag tag, std::size_t size) noexcept;
  Post check(MessagePeer& to, Tag tag, std::size_t size) noexcept;
  std::uint32_t offer_fast_box_if_due(MessagePeer& to) noexcept;
  void read_answer(MessagePeer& to) noexcept;
  static void put_back(Fragment& fragment) noexcept;

  const Config& config_;
  MessagePeers& peers_;
  BackPressure& back_pressure_;
};

}  // namespace opal::btl::sm
