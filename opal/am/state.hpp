// SPDX-License-Identifier: Apache-2.0
// opal/am/state.hpp — the inside of a Context, shared by the files that implement it.  Private to opal/am.
// Order of members = order of life: modules go before what they refer to, endpoints before modules.
#pragma once
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "opal/am/bootstrap.hpp"
#include "opal/am/config.hpp"
#include "opal/am/context.hpp"
#include "opal/am/registration_cache.hpp"
#include "opal/am/transports.hpp"
#include "opal/am/waiter.hpp"

namespace opal::am {

inline constexpr Tag kMarkerTag = kAmTags.first;  ///< the last message before a checkpoint; payload: its round

/// Messages that send_or_queue could not hand to the transport yet, oldest first.
struct Endpoint::Pending {
  struct Message {
    Tag tag;
    std::vector<std::byte> bytes;
  };
  std::deque<Message> messages;
  std::size_t bytes = 0;  // of all messages
  bool marked = false;    // the marker of a checkpoint is among the messages, or
  bool held = false;      // has gone out: the rest waits for resume()
};

/// A checkpoint under way.
struct Quiesce {
  struct Flush : Completion {
    bool queued = false;
  };
  bool active = false;
  std::uint64_t round = 0;
  std::unordered_map<PeerId, std::uint64_t> heard;  // the latest marker of each peer
  Flush flush;
};

struct Context::State final : btl::Observer {
  State(const Config& config, const Options& options, btl::RegistrationTable table)
      : config(config), options(options), lock(options.threads), registrations(std::move(table)) {}

  void on_accepted(btl::Endpoint& route) noexcept override;
  void on_failed(btl::Endpoint& route, const Error& why) noexcept override;

  /// Adds an endpoint whose route is known.
  Endpoint& add(const PeerId& peer, btl::Endpoint& route, std::string explanation);
  [[nodiscard]] RegistrationCache& registrations_of(const btl::Module& module) noexcept;
  /// Sends what waits; returns how many messages went out.
  std::size_t send_pending() noexcept;
  /// The same for one endpoint, adding to `sent`; false when the transport is busy before the end.
  static bool send_pending(Endpoint& endpoint, std::size_t& sent) noexcept;
  std::size_t welcome_visitors() noexcept;  // of the bootstrap
  [[nodiscard]] std::vector<std::byte> encode_address() const;

  // checkpoint.cpp
  void hold(Endpoint& endpoint);
  void on_marker(btl::Delivery& delivery) noexcept;

  Context* context = nullptr;
  const Config config;
  const Options options;
  Lock lock;
  PeerId id = PeerId::random();
  Secret secret;
  btl::HandlerTable handlers;
  btl::RegistrationTable registrations;
  std::unique_ptr<Waiter> waiter;
  Transports transports;
  std::vector<std::unique_ptr<RegistrationCache>> registration_caches;  // one per module
  std::vector<std::byte> address;
  std::unordered_map<PeerId, std::unique_ptr<Endpoint>> endpoints;
  std::vector<Endpoint*> pending;  // endpoints that have a Pending
  std::unique_ptr<Bootstrap> bootstrap;
  Quiesce quiesce;
};

}  // namespace opal::am
