// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/self/module.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "opal/btl/component.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/core/copy.hpp"
#include "opal/gpu/copies/copy.hpp"

namespace opal::btl::self {
namespace {

constexpr std::size_t kMaxSend = 64U << 10;

Attributes attributes_for(std::size_t ring) {
  Attributes result;
  result.transport = "self";
  result.gpu_memory = true;  // the GPU's driver copies within a process
  result.max_send = std::min(kMaxSend, ring / 4);
  result.eager = std::min<std::size_t>(result.max_send, 4096);
  result.latency_ns = 20;
  return result;
}

std::byte* at(std::uint64_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

}  // namespace

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, std::size_t ring) {
  Fd doorbell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!doorbell) return Error{Errc::os, errno, "eventfd(self)"};
  return std::unique_ptr<Module>{new Module{parameters, ring, std::move(doorbell)}};
}

Module::Module(const ModuleParameters& parameters, std::size_t ring, Fd doorbell)
    : ConnectedTransport(parameters, attributes_for(ring)), ring_(ring), doorbell_(std::move(doorbell)) {}

Module::~Module() { end_all(); }

Result<btl::Endpoint*> Module::connect(const PeerId& peer, ByteSpan /*address*/) {
  if (peer != parameters().id) return Error{Errc::unreachable, 0, "self: reaches this process only"};
  if (endpoint_ == nullptr) endpoint_ = &add(std::make_unique<Endpoint>(*this, peer));
  return endpoint_;
}

bool Module::leave(Endpoint& endpoint, const Error& why) noexcept {
  endpoint.mark_dead(why);
  endpoint_ = nullptr;
  head_ = tail_;  // drops undelivered messages: the receiver is the same endpoint
  return false;
}

std::byte* Module::reserve(std::size_t size) noexcept {
  const std::size_t need = sizeof(Record) + align_up(size, 8);
  const std::size_t place = place_of(tail_);
  const std::size_t to_end = ring_.size() - place;
  const std::size_t skipped = need > to_end ? to_end : 0;
  if (tail_ + skipped + need - head_ > ring_.size()) return nullptr;
  if (skipped != 0) {
    const Record skip{0, 0, kSkip};
    std::memcpy(ring_.data() + place, &skip, sizeof skip);
    tail_ += skipped;
  }
  return ring_.data() + place_of(tail_) + sizeof(Record);
}

void Module::commit(std::byte* place, std::size_t size, Tag tag) noexcept {
  const Record record{static_cast<std::uint32_t>(size), tag, kMessage};
  std::memcpy(place - sizeof record, &record, sizeof record);
  tail_ += sizeof record + align_up(size, 8);
  if (armed_) [[unlikely]] {
    armed_ = false;
    (void)::eventfd_write(doorbell_.get(), 1);
  }
}

Post Module::send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const std::size_t size = header.size() + payload.size();
  if (!accepts(to, size)) return Post::failed;
  std::byte* place = reserve(size);
  if (place == nullptr) return Post::again;
  copy_to(place, header);
  copy_to(place + header.size(), payload);
  commit(place, size, tag);
  return Post::done;
}

bool Module::check(Completion& completion, const MemoryHandle& handle, std::uint64_t address, std::uint64_t size,
                   Rights wanted) noexcept {
  const Result<void> checked = parameters().registrations.check(handle, address, size, wanted);
  completion.error = checked ? Error{} : checked.error();
  return checked.has_value();
}

Post Module::transfer(RdmaOperation::Kind kind, btl::Endpoint& /*to*/, std::byte* here, const MemoryHandle* /*local*/,
                      std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                      Completion& completion) noexcept {
  if (!check(completion, remote, remote_address, size, right_for(kind))) return Post::failed;
  std::byte* const there = at(remote_address);
  const auto copied = kind == RdmaOperation::Kind::put ? gpu::copy(there, here, size) : gpu::copy(here, there, size);
  return copied ? Post::done : refuse(completion, copied.error());
}

Post Module::atomic(btl::Endpoint& /*to*/, const AtomicRequest& request, Completion& completion) noexcept {
  if (const auto checked = check_request(request); !checked) return refuse(completion, checked.error());
  const std::size_t size = size_of(request.type);
  if (!check(completion, *request.remote, request.remote_address, size, Rights::remote_atomic)) return Post::failed;
  if (!gpu::is_host(at(request.remote_address))) {
    return refuse(completion, {Errc::not_supported, 0, "atomic: the memory is a GPU's", request.remote_address});
  }
  const std::uint64_t old =
      execute_atomic(request.op, request.type, at(request.remote_address), request.operand, request.compare);
  if (request.result != nullptr) *request.result = old;
  return Post::done;
}

std::size_t Module::receive(std::size_t budget) noexcept {
  std::size_t count = 0;
  while (count < budget && head_ != tail_) {
    const std::size_t place = place_of(head_);
    Record record{};
    std::memcpy(&record, ring_.data() + place, sizeof record);
    if (record.kind == kSkip) {
      head_ += ring_.size() - place;
      continue;
    }
    Delivery delivery{*endpoint_, record.tag, {ring_.data() + place + sizeof record, record.size}};
    parameters().handlers.dispatch(delivery);
    head_ += sizeof record + align_up(record.size, 8);  // after the handler, which reads the bytes
    ++count;
  }
  if (count != 0) armed_ = false;
  return count;
}

bool Module::arm_wake_up() noexcept {
  if (head_ != tail_) return false;
  eventfd_t count = 0;
  (void)::eventfd_read(doorbell_.get(), &count);  // clears an earlier notification
  armed_ = true;
  return true;
}

// ---- Component --------------------------------------------------------------------------------------------------

const Component& component() noexcept {
  static constexpr Component kComponent{
      .name = "self",
      .summary = "Messages of a process to itself",
      .exclusivity = 65536,  // above all others: messages to the own Context use self
      .reach = Reach::itself,
      .open = [](const ModuleParameters& parameters, const config::Store& /*store*/) -> Result<Modules> {
        return only(Module::open(parameters));
      },
  };
  return kComponent;
}

}  // namespace opal::btl::self
