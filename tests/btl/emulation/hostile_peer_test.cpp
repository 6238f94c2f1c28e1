// SPDX-License-Identifier: Apache-2.0
// The emulation against a peer that forges, repeats, truncates or invents messages: nothing outside a registration is
// touched, no operation ends twice, and other operations go on.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/core/system/mapping.hpp"
#include "tests/btl/emulation/fake_transport.hpp"

namespace opal::test {
namespace {

namespace wire = btl::wire;

struct Counted : Completion {
  Counted() {
    fn = [](Completion& self) noexcept { ++static_cast<Counted&>(self).calls; };
  }
  int calls = 0;
};

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

template <class Header>
std::vector<std::byte> message(const Header& header, ByteSpan handle, ByteSpan data) {
  std::vector<std::byte> bytes(sizeof header + handle.size() + data.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::copy(handle.begin(), handle.end(), bytes.begin() + sizeof header);
  std::copy(data.begin(), data.end(), bytes.begin() + static_cast<std::ptrdiff_t>(sizeof header + handle.size()));
  return bytes;
}

/// The error code of the one answer that waits in `module`'s queue.
Errc answer_of(FakeModule& module) {
  EXPECT_EQ(module.outgoing.size(), 1U);
  wire::Reply reply{};
  if (module.outgoing.empty() || !read_object(ByteSpan{module.outgoing.front().bytes}, reply)) return Errc::internal;
  module.outgoing.clear();
  return static_cast<Errc>(reply.code);
}

class HostilePeer : public ::testing::Test {
 protected:
  FakePair pair{1024};
  FakeModule& a = pair.a.module;
  FakeModule& b = pair.b.module;
  // Guards around the region show every byte written outside it.
  std::vector<std::byte> memory = std::vector<std::byte>(3 * 4096, std::byte{0x11});
  std::byte* region = memory.data() + 4096;
  MemoryHandle handle = *pair.b.module.register_memory(memory.data() + 4096, 4096, Rights::all);

  [[nodiscard]] bool guards_are_intact() const {
    return std::all_of(memory.begin(), memory.begin() + 4096, [](std::byte one) { return one == std::byte{0x11}; }) &&
           std::all_of(memory.end() - 4096, memory.end(), [](std::byte one) { return one == std::byte{0x11}; });
  }
};

TEST_F(HostilePeer, PiecesThatLieAboutTheirPlaceWriteNothing) {
  const std::vector<std::byte> data(64, std::byte{0xff});
  const auto before = memory;
  const std::uint64_t base = address_of(region);
  const wire::PutPiece pieces[] = {
      {1, base, 64, 1, 32},                  // this piece reaches one byte beyond the whole
      {1, base, 64, ~0ULL, 32},              // offset wraps
      {1, base, 64, 65, 32},                 // starts after the whole
      {1, base, ~0ULL, 0, 32},               // the whole is larger than the region
      {1, base - 64, 64, 0, 32},             // in front of it
      {1, base + 4096, 64, 0, 32},           // after it
      {1, base + 4096 - 63, 64, 0, 32},      // over its end
      {1, base - 4096, 3 * 4096, 4096, 32},  // this piece would be inside, the whole is not
      {1, base, 64, 0, 255},                 // handle too long for a handle
      {1, base, 64, 0, 97},                  // handle longer than the message
      {1, base, 64, 0, ~0ULL},               // absurd
      {1, ~0ULL - 10, 64, 0, 32},            // wraps around the address space
  };
  for (const wire::PutPiece& piece : pieces) {
    b.receive(wire::kPutPiece, message(piece, handle.bytes(), data));
    EXPECT_EQ(memory, before) << "offset " << piece.offset << " of " << piece.total;
    // Also one in the middle: the last piece's may be written again.
    EXPECT_EQ(b.outgoing.size(), 1U);
    EXPECT_NE(answer_of(b), Errc{});
  }
}

TEST_F(HostilePeer, RequestsOutsideTheRegionAreAnsweredWithAnError) {
  const std::uint64_t base = address_of(region);
  for (const auto& [address, size] : {std::pair<std::uint64_t, std::uint64_t>{base - 1, 1},
                                      {base + 4096, 1},
                                      {base, 4097},
                                      {base, ~0ULL},
                                      {~0ULL, 2}}) {
    b.receive(wire::kGetRequest, message(wire::GetRequest{7, address, size, 32}, handle.bytes(), {}));
    EXPECT_EQ(answer_of(b), Errc::invalid_argument);
  }
  b.receive(wire::kGetRequest, message(wire::GetRequest{7, base, 1, 33}, handle.bytes(), {}));
  EXPECT_EQ(answer_of(b), Errc::protocol);
}

TEST_F(HostilePeer, AtomicsAreCheckedForKindAlignmentAndBounds) {
  const auto before = memory;
  const std::uint64_t base = align_up(address_of(region), 8);
  const auto ask = [&](std::uint64_t address, std::uint32_t op, std::uint32_t type) {
    b.receive(wire::kAtomicRequest, message(wire::AtomicRequest{9, address, 1, 0, op, type, 32}, handle.bytes(), {}));
    return answer_of(b);
  };
  const auto u64 = static_cast<std::uint32_t>(AtomicType::u64);
  EXPECT_EQ(ask(base + 4, 0, u64), Errc::invalid_argument) << "not aligned";
  EXPECT_EQ(ask(base - 8, 0, u64), Errc::invalid_argument) << "outside";
  EXPECT_EQ(ask(base, 200, u64), Errc::not_supported);
  EXPECT_EQ(ask(base, 0, 200), Errc::not_supported);
  EXPECT_EQ(ask(base, 0x100, u64), Errc::protocol) << "must not be cut to a byte that means add";
  EXPECT_EQ(ask(base, static_cast<std::uint32_t>(AtomicOp::bit_or), static_cast<std::uint32_t>(AtomicType::f64)),
            Errc::not_supported);
  EXPECT_EQ(memory, before);
}

TEST_F(HostilePeer, RightsAreCheckedAtTheTargetWhateverTheHandleSays) {
  ASSERT_TRUE(b.deregister_memory(handle));
  const MemoryHandle readable = *b.register_memory(region, 4096, Rights::remote_read);
  btl::SoftwareHandle forged{};
  ASSERT_TRUE(read_object(readable.bytes(), forged));
  forged.rights = static_cast<std::uint32_t>(Rights::all);
  forged.size = 1 << 20;
  const MemoryHandle lie = *MemoryHandle::from_bytes(bytes_of(forged));
  const auto before = memory;
  const std::vector<std::byte> source(8192, std::byte{0xee});
  Counted completion;
  ASSERT_EQ(a.put(a.endpoint(), source.data(), nullptr, address_of(region), lie, 8, completion), Post::queued);
  pair.settle();
  EXPECT_EQ(completion.error.code, Errc::permission);
  ASSERT_EQ(a.put(a.endpoint(), source.data(), nullptr, address_of(region), lie, 8192, completion), Post::queued);
  pair.settle();
  EXPECT_EQ(completion.error.code, Errc::invalid_argument);
  EXPECT_EQ(completion.calls, 2);
  EXPECT_EQ(memory, before);
}

TEST_F(HostilePeer, ForgedAnswersFindNoOperation) {
  std::vector<std::byte> sink(100);
  Counted get_done;
  ASSERT_EQ(a.get(a.endpoint(), sink.data(), nullptr, address_of(region), handle, 100, get_done), Post::queued);
  // The real name is in the request that waits.
  wire::GetRequest request{};
  ASSERT_TRUE(read_object(ByteSpan{a.outgoing.front().bytes}, request));
  const std::vector<std::byte> poison(100, std::byte{0xdd});
  for (const std::uint64_t name :
       {request.operation + 1, request.operation + (std::uint64_t{1} << 32), ~std::uint64_t{0}}) {
    a.receive(wire::kGetPiece, message(wire::GetPiece{name, 0}, {}, poison));
    a.receive(wire::kReply, message(wire::Reply{name, 0, 0}, {}, {}));
  }
  EXPECT_EQ(get_done.calls, 0);
  EXPECT_EQ(sink, std::vector<std::byte>(100));
  pair.settle();
  EXPECT_EQ(get_done.calls, 1);
  EXPECT_TRUE(get_done.ok());
  // The same name again: the operation has ended, its slot has another generation.
  a.receive(wire::kGetPiece, message(wire::GetPiece{request.operation, 0}, {}, poison));
  a.receive(wire::kReply, message(wire::Reply{request.operation, 0, 3}, {}, {}));
  EXPECT_EQ(get_done.calls, 1);
  EXPECT_EQ(std::count(sink.begin(), sink.end(), std::byte{0xdd}), 0);
}

TEST_F(HostilePeer, PiecesOfAGetThatDoNotFitEndThatGetOnly) {
  for (const auto& [offset, size] : {std::pair<std::uint64_t, std::size_t>{0, 101}, {50, 10}, {~0ULL, 1}, {100, 1}}) {
    std::vector<std::byte> sink(200, std::byte{0x22});
    Counted victim;
    ASSERT_EQ(a.get(a.endpoint(), sink.data(), nullptr, address_of(region), handle, 100, victim), Post::queued);
    wire::GetRequest request{};
    ASSERT_TRUE(read_object(ByteSpan{a.outgoing.back().bytes}, request));
    a.receive(wire::kGetPiece,
              message(wire::GetPiece{request.operation, offset}, {}, std::vector<std::byte>(size, std::byte{0xdd})));
    EXPECT_EQ(victim.calls, 1);
    EXPECT_EQ(victim.error.code, Errc::protocol);
    EXPECT_EQ(sink, std::vector<std::byte>(200, std::byte{0x22}));
    pair.settle();
    EXPECT_EQ(victim.calls, 1);
  }
}

TEST_F(HostilePeer, ADoneForWhatHasNotBeenSentYetIsAnError) {
  a.capacity = 2;
  const std::vector<std::byte> source(4096, std::byte{0x33});
  Counted completion;
  ASSERT_EQ(a.put(a.endpoint(), source.data(), nullptr, address_of(region), handle, 4096, completion), Post::queued);
  wire::PutPiece piece{};
  ASSERT_TRUE(read_object(ByteSpan{a.outgoing.front().bytes}, piece));
  a.receive(wire::kReply, message(wire::Reply{piece.operation, 0, 0}, {}, {}));
  EXPECT_EQ(completion.calls, 1);
  EXPECT_EQ(completion.error.code, Errc::protocol);
  EXPECT_TRUE(a.rdma().idle()) << "the rest is not sent";
  pair.settle();
  EXPECT_EQ(completion.calls, 1);
}

TEST_F(HostilePeer, AFloodOfRequestsDoesNotTakeMemoryWithoutEnd) {
  b.capacity = 1;
  const auto request = message(wire::GetRequest{1, address_of(region), 4096, 32}, handle.bytes(), {});
  const auto bad = message(wire::GetRequest{1, address_of(region), 5000, 32}, handle.bytes(), {});
  for (int i = 0; i < 100'000; ++i) b.receive(wire::kGetRequest, i % 2 == 0 ? request : bad);
  // What was admitted is answered once the peer reads; the rest was dropped.
  b.capacity = 100'000;
  std::size_t sent = 0;
  while (b.progress(64) != 0) {
    sent += b.outgoing.size();
    b.outgoing.clear();
  }
  EXPECT_LE(sent, 2048U + 1024U * 5U);
  EXPECT_TRUE(b.rdma().idle());
}

TEST_F(HostilePeer, NoiseOnEveryTagTouchesNothingOutside) {
  std::mt19937_64 random{42};
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> noise(random() % 200);
    for (std::byte& one : noise) one = static_cast<std::byte>(random());
    // Half of them with a real handle and nearly real addresses after the first words.
    if (round % 2 == 0 && noise.size() >= 80) {
      const std::uint64_t words[] = {random() % 4, address_of(region) + random() % 8192 - 2048, random() % 8192,
                                     random() % 4096, 32};
      std::memcpy(noise.data(), words, sizeof words);
      std::copy(handle.bytes().begin(), handle.bytes().end(), noise.begin() + 40);
    }
    const Tag tag = static_cast<Tag>(wire::kPutPiece + random() % 5);
    b.receive(tag, noise);
    if (round % 64 == 0) {
      b.progress(64);
      b.outgoing.clear();
    }
  }
  EXPECT_TRUE(guards_are_intact());
}

TEST_F(HostilePeer, PlacesBeyondFourGigabytesAreNotCut) {
  constexpr std::uint64_t kSize = 6ULL << 30;
  auto sparse = Mapping::anonymous(kSize, false);
  ASSERT_TRUE(sparse);
  const MemoryHandle wide = *b.register_memory(sparse->data(), kSize, Rights::all);
  const std::uint64_t base = address_of(sparse->data());
  const std::vector<std::byte> data(100, std::byte{0x5a});
  // One piece of a put of the whole 6 GiB, as the initiator would cut it, beyond the 32nd bit.
  const std::uint64_t offset = (5ULL << 30) + 12'345;
  b.receive(wire::kPutPiece, message(wire::PutPiece{3, base, kSize, offset, 32}, wide.bytes(), data));
  EXPECT_EQ(sparse->data()[offset], std::byte{0x5a});
  EXPECT_EQ(sparse->data()[offset + 99], std::byte{0x5a});
  EXPECT_EQ(sparse->data()[offset & 0xffffffffU], std::byte{0});
  // The last bytes, and one byte too far.
  b.receive(wire::kPutPiece, message(wire::PutPiece{4, base, kSize, kSize - 100, 32}, wide.bytes(), data));
  EXPECT_EQ(answer_of(b), Errc{});
  EXPECT_EQ(sparse->data()[kSize - 1], std::byte{0x5a});
  b.receive(wire::kPutPiece, message(wire::PutPiece{5, base, kSize + 1, kSize - 99, 32}, wide.bytes(), data));
  EXPECT_EQ(answer_of(b), Errc::invalid_argument);
  // And a get from there.
  std::vector<std::byte> sink(100);
  Counted completion;
  ASSERT_EQ(a.get(a.endpoint(), sink.data(), nullptr, base + offset, wide, 100, completion), Post::queued);
  pair.settle();
  EXPECT_TRUE(completion.ok());
  EXPECT_EQ(sink, data);
}

}  // namespace
}  // namespace opal::test
