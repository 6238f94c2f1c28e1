// SPDX-License-Identifier: Apache-2.0
// What a peer may send to the put/get emulation.  Input: records of {u8 kind, u8 size, size bytes}; the kind chooses
// the message and whether real names and places are put into its first words, so that checks behind the first are
// reached too.  Memory around the one registration must never change.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "opal/btl/shared/rdma_wire.hpp"
#include "tests/btl/emulation/fake_transport.hpp"

namespace {

namespace wire = opal::btl::wire;
using opal::Tag;

constexpr std::size_t kGuard = 256;
constexpr std::size_t kInner = 512;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

bool untouched(const std::byte* from) {
  return std::all_of(from, from + kGuard, [](std::byte one) { return one == std::byte{0x11}; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  opal::test::FakePair pair{300};
  pair.a.module.capacity = pair.b.module.capacity = 3;
  std::vector<std::byte> memory(kInner + 2 * kGuard, std::byte{0x11});
  std::vector<std::byte> sink(kInner + 2 * kGuard, std::byte{0x11});
  std::byte* region = memory.data() + kGuard;
  const auto handle = *pair.b.module.register_memory(region, kInner, opal::Rights::all);
  opal::Completion completions[3];
  // Operations under way, so that answers may find one.
  auto& a = pair.a.module;
  (void)a.get(a.endpoint(), sink.data() + kGuard, nullptr, address_of(region), handle, kInner, completions[0]);
  (void)a.put(a.endpoint(), sink.data(), nullptr, address_of(region), handle, kInner, completions[1]);
  std::size_t place = 0;
  while (place + 2 <= size) {
    const std::uint8_t kind = data[place];
    const std::size_t length = std::min<std::size_t>(data[place + 1], size - place - 2);
    std::vector<std::byte> message(length);
    if (length != 0) std::memcpy(message.data(), data + place + 2, length);
    place += 2 + length;
    if ((kind & 0x80) != 0 && length >= 16) {  // a base inside or near the region
      std::uint64_t base = 0;
      std::memcpy(&base, message.data() + 8, sizeof base);
      base = address_of(region) + base % (kInner + 2) - 1;
      std::memcpy(message.data() + 8, &base, sizeof base);
    }
    if ((kind & 0x40) != 0) message.insert(message.end(), handle.bytes().begin(), handle.bytes().end());
    const Tag tag = static_cast<Tag>(wire::kPutPiece + kind % 5);
    if ((kind & 0x20) != 0) {
      a.receive(tag, message);
    } else {
      pair.b.module.receive(tag, message);
    }
    if ((kind & 0x10) != 0) {
      a.progress(4);
      pair.b.module.progress(4);
      (void)pair.b.module.deliver_one();
    }
  }
  if (!untouched(memory.data()) || !untouched(region + kInner)) std::abort();
  if (!untouched(sink.data()) || !untouched(sink.data() + kGuard + kInner)) std::abort();
  a.rdma().endpoint_gone(a.endpoint(), {opal::Errc::canceled});
  return 0;
}
