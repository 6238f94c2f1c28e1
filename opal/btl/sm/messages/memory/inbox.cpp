// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/messages/memory/inbox.hpp"

#include <bit>
#include <new>

namespace opal::btl::sm {
namespace {

constexpr std::uint32_t kMostSlots = 1U << 20;

constexpr std::size_t bytes_of_inbox(std::uint32_t slots) noexcept {
  return sizeof(wire::InboxHeader) + slots * sizeof(std::uint64_t);
}

FifoSlots slots_of(std::byte* inbox, std::uint32_t slots) noexcept {
  return {reinterpret_cast<std::atomic<std::uint64_t>*>(inbox + sizeof(wire::InboxHeader)), slots};
}

}  // namespace

Result<Inbox> Inbox::create(const PeerId& owner, std::uint32_t fifo_slots) {
  const std::size_t size = bytes_of_inbox(fifo_slots);
  mpool::SharedPool::Options options;
  options.chunk = align_up(size, 4096);
  OPAL_TRY_ASSIGN(mpool::SharedPool pool, mpool::SharedPool::create("opal-sm-inbox", size, options));
  OPAL_TRY_ASSIGN(const mpool::SharedBlock block, pool.allocate(size, 4096));
  if (block.offset != 0) return Error{Errc::internal, 0, "sm inbox: the first block is not at the start", block.offset};
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): placed in memory that the pool owns
  auto* header =
      new (block.address) wire::InboxHeader{wire::kInboxMagic, wire::kLayoutVersion, fifo_slots, owner, {0}, {0}, {0}};
  FifoConsumer fifo{slots_of(block.address, fifo_slots), header->tail};
  fifo.reset();
  return Inbox{std::move(pool), *header, fifo};
}

Result<PeerInbox> PeerInbox::attach(int fd, const PeerId& owner) {
  OPAL_TRY_ASSIGN(Mapping map, mpool::SharedPool::attach(fd));
  if (map.size() < sizeof(wire::InboxHeader)) return Error{Errc::protocol, 0, "sm inbox: too small", map.size()};
  auto* header = reinterpret_cast<wire::InboxHeader*>(map.data());
  if (header->magic != wire::kInboxMagic) return Error{Errc::protocol, 0, "sm inbox: not an inbox", header->magic};
  if (header->version != wire::kLayoutVersion) {
    return Error{Errc::version_mismatch, 0, "sm inbox: layout version", header->version};
  }
  const std::uint32_t slots = header->slots;
  if (!std::has_single_bit(slots) || slots > kMostSlots || map.size() < bytes_of_inbox(slots)) {
    return Error{Errc::protocol, 0, "sm inbox: number of FIFO slots", slots};
  }
  if (header->owner != owner) return Error{Errc::protocol, 0, "sm inbox: belongs to another process", 0};
  const FifoProducer fifo{slots_of(map.data(), slots), header->tail};
  return PeerInbox{std::move(map), *header, fifo};
}

}  // namespace opal::btl::sm
