// SPDX-License-Identifier: Apache-2.0
// Messages over libfabric: sends, completions, and arming before a sleep.
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "opal/btl/ofi/module.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::ofi {
namespace {

constexpr std::size_t kBatch = 16;

}  // namespace

bool Module::transmit(rdm::Endpoint& to, rdm::SendBuffer& buffer, std::size_t size) noexcept {
  auto& own = static_cast<SendBuffer&>(buffer);
  const auto result =
      fi_send(messages_.endpoint.get(), own.data, size, own.descriptor, to.to(), static_cast<Operation*>(&own));
  return was_sent(to, result);
}

bool Module::transmit_inline(rdm::Endpoint& to, ByteSpan message) noexcept {
  return was_sent(to, fi_inject(messages_.endpoint.get(), message.data(), message.size(), to.to()));
}

bool Module::was_sent(rdm::Endpoint& to, long result) noexcept {
  if (result == 0) [[likely]]
    return true;
  if (result == -FI_EAGAIN) {
    on_stalled();
  } else {
    to.break_off({Errc::peer_gone, static_cast<int>(-result), "fi_send"});
  }
  return false;
}

/// `why`: the error of the completion, with code 0 for success.
void Module::on_completion(const fi_cq_data_entry& entry, const Error& why) noexcept {
  auto* const operation = static_cast<Operation*>(entry.op_context);
  if (operation == nullptr) return;  // after an error: of an fi_inject(); the next ping fails, too
  switch (operation->kind) {
    case Operation::Kind::send: return on_sent(static_cast<SendBuffer&>(*operation), why);
    case Operation::Kind::one_sided: return one_sided_.on_done(*operation, why);
    case Operation::Kind::receive:
      if (const ByteSpan message = receive_buffers_.message_of(entry); !message.empty()) on_message(message);
      return receive_buffers_.recycle(entry);
  }
}

/// Takes the completion with an error that the queue has reported.
void Module::on_failure(fid_cq* queue) noexcept {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(queue, &entry, 0) < 0) return;
  log::debug("btl.ofi", "completion with error {} ({}), provider's {}", entry.err, library().strerror(entry.err),
             entry.prov_errno);
  const Error why{Errc::peer_gone, entry.err == 0 ? EIO : entry.err, "the provider reported an error",
                  static_cast<std::uint64_t>(entry.prov_errno)};
  on_completion({entry.op_context, entry.flags, 0, entry.buf, entry.data}, why);
}

/// Takes at most `most` completions of a queue; returns how many, or `most` after an error, since more may follow.
/// Requires: `most` is at most kBatch.
std::size_t Module::poll_queue(fid_cq* queue, std::size_t most) noexcept {
  std::array<fi_cq_data_entry, kBatch> batch;
  const auto count = fi_cq_read(queue, batch.data(), most);
  if (count == -FI_EAVAIL) {
    on_failure(queue);
    return most;
  }
  const bool of_messages = queue == messages_.completions.get();
  const std::uint64_t closings = one_sided_.closings();
  for (std::size_t i = 0; count > 0 && i < static_cast<std::size_t>(count); ++i) {
    if (!of_messages && one_sided_.closings() != closings) break;  // a callback has disconnected
    on_completion(batch[i], {});
  }
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

bool Module::poll_messages() noexcept {
  std::size_t early = 0;
  while (early < early_.size() && may_run()) on_completion(early_[early++], {});
  early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(early));
  bool any = early != 0;
  while (may_run()) {
    const std::size_t most = std::min(kBatch, turns());
    const std::size_t count = poll_queue(messages_.completions.get(), most);
    if (count == 0) return any;
    any = true;
    count_event();
    if (count < most) return any;
  }
  return true;
}

bool Module::poll_network() noexcept {
  if (memory_.some_stale()) [[unlikely]]
    memory_.revoke_stale();
  const bool messages = poll_messages();
  fid_cq* const one_sided = one_sided_.completions();
  const bool busy = (one_sided != nullptr && poll_queue(one_sided, kBatch) != 0) || messages;
  if (!receive_buffers_.all_posted()) [[unlikely]]
    receive_buffers_.post_missing();
  return busy;
}

bool Module::must_poll() const noexcept {
  return !receive_buffers_.all_posted() || messages_.wait_fd < 0 || one_sided_.must_poll();
}

bool Module::arm_network() noexcept {
  if (!early_.empty() || memory_.some_stale()) return false;
  std::array<fi_cq_data_entry, kBatch> batch;
  const auto count = fi_cq_read(messages_.completions.get(), batch.data(), batch.size());
  if (count > 0) early_.assign(batch.begin(), batch.begin() + count);
  if (count != -FI_EAGAIN && count != 0) return false;
  return device_.arm(messages_) && one_sided_.arm();
}

}  // namespace opal::btl::ofi
