// SPDX-License-Identifier: Apache-2.0
// What a peer may send about lent registrations, to the owner of the memory and to the initiator of transfers, over two
// simulated devices.  Input: records of {u8 kind, u8 size, size bytes}; the kind chooses the message, to whom, and
// whether real places and handles are put into it, so that checks behind the first are reached too.  Memory beside the
// one registration must never change, nothing lent may outlive its endpoint, and no device key its lease.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "opal/btl/shared/pipelined_transfers.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/btl/sim/module.hpp"
#include "opal/rcache/cache.hpp"

namespace {

namespace wire = opal::btl::wire;
using opal::Tag;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kInner = 8 * kPage;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

bool is(const std::byte* from, std::size_t size, std::byte what) {
  return std::all_of(from, from + size, [=](std::byte one) { return one == what; });
}

template <class T>
T must(opal::Result<T> result) {
  if (!result) std::abort();
  return std::move(result).value();
}

opal::rcache::Config small_pieces() {
  opal::rcache::Config config;
  config.max_chunk = opal::ByteSize{2 * kPage};
  return config;
}

/// One device and its program, with a cache over it as a Context has.
struct Side final : opal::btl::Observer, opal::rcache::Device {
  explicit Side(const opal::btl::sim::Config& config) : registrations(must(opal::btl::RegistrationTable::create(64))) {
    if (!opal::btl::RdmaEmulation::install(handlers)) std::abort();
    module = must(opal::btl::sim::Module::open({id, handlers, registrations, *this}, config));
    module->use_registrations(&cache);
  }
  ~Side() {
    module->use_registrations(nullptr);
    cache.flush();
    if (live != 0) std::abort();
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void on_accepted(opal::btl::Endpoint&) noexcept override {}
  void on_failed(opal::btl::Endpoint&, const opal::Error&) noexcept override {}
  opal::Result<void> register_memory(opal::rcache::Registration& registration) noexcept override {
    OPAL_TRY_ASSIGN(const opal::MemoryHandle handle,
                    module->register_memory(registration.base(), registration.length(), opal::Rights::all));
    registration.cookie().set(handle);
    ++live;
    return {};
  }
  void deregister_memory(opal::rcache::Registration& registration) noexcept override {
    if (!module->deregister_memory(registration.cookie().get<opal::MemoryHandle>())) std::abort();
    --live;
  }
  void receive(opal::btl::Endpoint& from, Tag tag, const std::vector<std::byte>& bytes) const {
    const std::vector<std::byte> exact = bytes;  // so that a sanitizer sees a read beyond the end
    opal::btl::Delivery delivery{from, tag, exact};
    handlers.dispatch(delivery);
  }

  opal::PeerId id = opal::PeerId::random();
  opal::btl::HandlerTable handlers;
  opal::btl::RegistrationTable registrations;
  std::unique_ptr<opal::btl::sim::Module> module;
  int live = 0;
  opal::rcache::Cache cache{*this, small_pieces()};
};

void progress(const Side& a, const Side& b, int times) {
  for (; times > 0; --times) {
    (void)a.module->progress(8);
    (void)b.module->progress(8);
  }
}

void patch(std::vector<std::byte>& message, std::size_t at, std::uint64_t value) {
  if (message.size() >= at + sizeof value) std::memcpy(message.data() + at, &value, sizeof value);
}

std::uint64_t word(const std::vector<std::byte>& message, std::size_t at) {
  std::uint64_t value = 0;
  if (message.size() >= at + sizeof value) std::memcpy(&value, message.data() + at, sizeof value);
  return value;
}

/// A request that names a place inside or near the region, with rights that there are or nearly are.
void aim(std::vector<std::byte>& message, const std::byte* region) {
  const std::uint64_t base = address_of(region) + word(message, 8) % (kInner + 2) - 1;
  const std::uint64_t total = word(message, 16) % (kInner + 2);
  patch(message, 8, base);
  patch(message, 16, total);
  patch(message, 24, base + word(message, 24) % (total + 2));
  patch(message, 32, word(message, 32) % (total + 2));
  patch(message, 40, word(message, 40) % 4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  opal::btl::sim::Config config;
  config.fabric = "fuzz";
  config.max_send = opal::ByteSize{1024};
  config.registrations = 4;
  Side a{config};
  Side b{config};
  opal::btl::Endpoint& to_b = *must(a.module->connect(b.id, b.module->address()));
  opal::btl::Endpoint& to_a = *must(b.module->connect(a.id, a.module->address()));
  progress(a, b, 8);
  std::vector<std::byte> memory(kInner + 4 * kPage, std::byte{0x11});
  std::vector<std::byte> local(kInner, std::byte{0x22});
  std::byte* const region = memory.data() + 2 * kPage;
  const opal::MemoryHandle handle = must(b.registrations.add(region, kInner, opal::Rights::all));
  // Transfers under way, so that answers may find one.
  std::array<opal::Completion, 2> completions;
  (void)a.module->get(to_b, local.data(), nullptr, address_of(region), handle, kInner / 2, completions[0]);
  (void)a.module->put(to_b, local.data() + kInner / 2, nullptr, address_of(region), handle, kInner / 2, completions[1]);
  for (std::size_t place = 0; place + 2 <= size;) {
    const std::uint8_t kind = data[place];
    const std::size_t length = std::min<std::size_t>(data[place + 1], size - place - 2);
    std::vector<std::byte> message(length);
    if (length != 0) std::memcpy(message.data(), data + place + 2, length);
    place += 2 + length;
    constexpr std::array<Tag, 3> kTags{wire::kLendRequest, wire::kLentReturn, wire::kLent};
    const Tag tag = kTags.at(kind % kTags.size());
    if ((kind & 0x80) != 0 && tag == wire::kLendRequest) aim(message, region);
    if ((kind & 0x80) != 0 && tag != wire::kLendRequest) patch(message, 0, word(message, 0) % 8);
    if ((kind & 0x40) != 0) message.insert(message.end(), handle.bytes().begin(), handle.bytes().end());
    (kind & 0x20) != 0 ? a.receive(to_b, tag, message) : b.receive(to_a, tag, message);
    if ((kind & 0x10) != 0) progress(a, b, 2);
  }
  progress(a, b, 4);
  if (!is(memory.data(), 2 * kPage, std::byte{0x11}) || !is(region + kInner, 2 * kPage, std::byte{0x11})) std::abort();
  b.module->disconnect(to_a);
  if (b.module->transfers()->lent() != 0) std::abort();
  a.module->disconnect(to_b);
  return 0;
}
