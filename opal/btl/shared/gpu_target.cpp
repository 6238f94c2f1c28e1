// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/gpu_target.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/core/copy.hpp"
#include "opal/core/log.hpp"
#include "opal/gpu/copies/copy.hpp"

namespace opal::btl {
namespace {

/// Transfers of one peer at a time.  A correct initiator never has more operations in flight.
constexpr std::size_t kMostTransfers = RdmaOperations::kMost;
constexpr std::size_t kMostSlots = 16;  ///< that one get holds
constexpr int kMostMessages = 8;        ///< that one get sends in one advance()

std::byte* at(std::uint64_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

std::uint64_t generation_of(const MemoryHandle& handle) noexcept {
  const auto decoded = SoftwareHandle::decode(handle);
  return decoded ? decoded->generation : 0;  // not reached: the check has decoded it before
}

}  // namespace

GpuTarget::GpuTarget(Module& module, RdmaEmulation& messages)
    : module_(module), messages_(messages), copier_(gpu::started_with()) {
  make_slots();
  module_.parameters().registrations.follow(*this);
}

GpuTarget::~GpuTarget() {
  module_.parameters().registrations.unfollow(*this);
  while (!transfers_.empty()) forget(transfers_.front());
}

// ---- Slots

/// Makes the slots.  Without memory for them pieces are copied synchronously, which is slower.
void GpuTarget::make_slots() noexcept try {
  const gpu::Config& config = gpu::started_with();
  slot_size_ = (room() + 63) / 64 * 64;
  const std::size_t count = std::max<std::size_t>(2, config.stage_chunk.bytes * config.stage_chunks / slot_size_);
  auto made = gpu::StagingMemory::make(slot_size_ * count);
  if (!made) return log::info("btl", "GPU memory is not staged: {}", to_string(made.error()));
  memory_ = std::move(*made);
  slots_.resize(count);
  free_.reserve(count);
  for (std::size_t i = count; i > 0; --i) {
    Slot& slot = slots_[i - 1];
    slot.owner = this;
    slot.data = memory_.pages.data() + (i - 1) * slot_size_;
    free_.push_back(&slot);
  }
} catch (const std::bad_alloc&) {
  free_.clear();
}

GpuTarget::Slot* GpuTarget::take_slot() noexcept {
  if (free_.empty()) return nullptr;
  Slot* const slot = free_.back();
  free_.pop_back();
  return slot;
}

void GpuTarget::give_back(Slot& slot) noexcept {
  slot.transfer = nullptr;
  free_.push_back(&slot);  // no allocation: make_slots() has reserved the space
}

/// Starts the copy of a slot.  Errors: as Copier::copy(); the slot is then free.
Result<void> GpuTarget::start(Slot& slot, Transfer& transfer, std::uint64_t generation, void* to,
                              const void* from) noexcept {
  const gpu::Copier::Done done{[](void* user, const Result<void>& result) noexcept {
                                 auto& slot = *static_cast<Slot*>(user);
                                 slot.owner->copied(slot, result);
                               },
                               &slot};
  const auto started = copier_.copy(transfer.work->handle(), queue_of(slot), to, from, slot.size, done);
  if (!started) {
    give_back(slot);
    return started;
  }
  slot.transfer = &transfer;
  slot.generation = generation;
  slot.copying = true;
  ++transfer.under_way;
  return {};
}

/// The copy of the slot has ended.  Posts nothing, since deregister_memory() may have called it by
/// registration_ended(): progress() posts.
void GpuTarget::copied(Slot& slot, const Result<void>& result) noexcept {
  slot.copying = false;
  Transfer* const transfer = slot.transfer;
  if (transfer == nullptr) return give_back(slot);
  --transfer->under_way;
  if (!result && !transfer->failed()) transfer->error = result.error();
  if (transfer->kind == Kind::put) give_back(slot);
}

void GpuTarget::registration_ended(std::uint64_t generation) noexcept {
  copier_.progress_until([&] {
    return std::ranges::none_of(slots_,
                                [&](const Slot& slot) { return slot.copying && slot.generation == generation; });
  });
}

// ---- Transfers

/// Makes a transfer.  Null: the peer has kMostTransfers.  A transfer that cannot be done has an error.
GpuTarget::Transfer* GpuTarget::begin(Kind kind, Endpoint& peer, std::uint64_t operation,
                                      std::uint64_t address) noexcept {
  const auto of_peer = [&](const Transfer& transfer) { return transfer.peer == &peer; };
  const auto number = std::count_if(transfers_.begin(), transfers_.end(), of_peer);
  if (static_cast<std::size_t>(number) >= kMostTransfers) return nullptr;
  Transfer& transfer = transfers_.emplace_back(Transfer{.kind = kind, .peer = &peer, .operation = operation});
  const auto memory = gpu::inspect(at(address));
  if (!memory) return transfer.error = memory.error(), &transfer;
  gpu::make_synchronous(*memory);
  auto work = gpu::WorkContext::of(*memory);
  if (!work) return transfer.error = work.error(), &transfer;
  transfer.work.emplace(std::move(*work));
  return &transfer;
}

GpuTarget::Transfer* GpuTarget::find_put(const Endpoint& from, std::uint64_t operation) noexcept {
  const auto found = std::find_if(transfers_.begin(), transfers_.end(), [&](const Transfer& transfer) {
    return transfer.kind == Kind::put && transfer.peer == &from && transfer.operation == operation;
  });
  return found == transfers_.end() ? nullptr : &*found;
}

void GpuTarget::answer(const Transfer& transfer) noexcept {
  messages_.reply(*transfer.peer, transfer.operation, transfer.error.code);
}

/// Drops a transfer.  Its slots with a copy in flight become free when the copy ends.
void GpuTarget::forget(Transfer& transfer) noexcept {
  for (Slot& slot : slots_) {
    if (slot.transfer != &transfer) continue;
    slot.transfer = nullptr;
    if (!slot.copying) give_back(slot);
  }
  transfers_.remove_if([&](const Transfer& each) { return &each == &transfer; });
}

void GpuTarget::endpoint_gone(const Endpoint& endpoint) noexcept {
  for (auto next = transfers_.begin(); next != transfers_.end();) {
    Transfer& transfer = *next++;
    if (transfer.peer == &endpoint) forget(transfer);
  }
}

// ---- Puts

void GpuTarget::land(Endpoint& from, const wire::PutPiece& piece, const MemoryHandle& handle, ByteSpan data,
                     const Result<void>& allowed) noexcept {
  Transfer* transfer = find_put(from, piece.operation);
  if (transfer == nullptr) transfer = begin(Kind::put, from, piece.operation, piece.base);
  if (transfer == nullptr) {
    return messages_.reply(from, piece.operation, Errc::limit_reached);
  }
  if (transfer->complete) return;  // the peer sends more after the last piece: drop it
  if (!transfer->failed()) {
    const auto landed =
        allowed ? copy_in(*transfer, generation_of(handle), at(piece.base + piece.offset), data) : allowed;
    if (!landed) transfer->error = landed.error();
  }
  transfer->complete = piece.offset + data.size() == piece.total;
  if (!transfer->over()) return;
  answer(*transfer);  // also an error is sent only now: after the answer nothing of this put is written
  forget(*transfer);
}

Result<void> GpuTarget::copy_in(Transfer& transfer, std::uint64_t generation, std::byte* to, ByteSpan data) noexcept {
  if (data.empty()) return {};
  if (Slot* const slot = data.size() <= slot_size_ ? take_slot() : nullptr; slot != nullptr) {
    copy_host_memory(slot->data, data.data(), data.size());
    slot->size = data.size();
    const auto started = start(*slot, transfer, generation, to, slot->data);
    if (started || started.error().code != Errc::busy) return started;
  }
  return gpu::copy(to, data.data(), data.size());
}

// ---- Gets

void GpuTarget::serve(Endpoint& to, const wire::GetRequest& request, const MemoryHandle& handle) noexcept {
  Transfer* const get = begin(Kind::get, to, request.operation, request.base);
  if (get == nullptr) return messages_.reply(to, request.operation, Errc::limit_reached);
  get->handle = handle;
  get->base = request.base;
  get->total = request.total;
  (void)advance(*get);
}

/// Sends the pieces that have been read and starts to read more.  Returns the number of pieces sent.
std::size_t GpuTarget::advance(Transfer& get) noexcept {
  std::size_t count = 0;
  for (int turn = 0; turn < kMostMessages && !get.failed() && get.sent < get.total; ++turn) {
    if (const auto ahead = read_ahead(get); !ahead) {
      get.error = ahead.error();
      break;
    }
    if (get.slots.empty()) {  // no slot: others hold them, the copier is busy, or no staging memory is usable
      const auto sent = send_at_once(get);
      if (!sent) get.error = sent.error();
      if (!sent || !*sent) break;
    } else {
      Slot& slot = *get.slots.front();
      if (slot.copying) break;
      const wire::GetPiece piece{get.operation, get.sent};
      // After `failed` the endpoint is dead: endpoint_gone() drops the transfer.
      if (module_.send_inline(*get.peer, wire::kGetPiece, bytes_of(piece), {slot.data, slot.size}) != Post::done) break;
      get.sent += slot.size;
      get.slots.pop_front();
      give_back(slot);
    }
    ++count;
  }
  return count;
}

/// Starts copies from the GPU to free slots.  Errors: those of the registration's check, and of the copier.
Result<void> GpuTarget::read_ahead(Transfer& get) noexcept {
  while (get.read < get.total && get.slots.size() < kMostSlots) {
    OPAL_TRY(module_.parameters().registrations.check(get.handle, get.base, get.total, Rights::remote_read));
    Slot* const slot = take_slot();
    if (slot == nullptr) return {};
    slot->size = std::min(room(), get.total - get.read);
    if (const auto started = start(*slot, get, generation_of(get.handle), slot->data, at(get.base + get.read));
        !started) {
      return started.error().code == Errc::busy ? Result<void>{} : started;
    }
    get.slots.push_back(slot);
    get.read += slot->size;
  }
  return {};
}

/// Copies one piece synchronously into a fragment and sends it.  False: the transport has no room.
Result<bool> GpuTarget::send_at_once(Transfer& get) noexcept {
  const std::uint64_t size = std::min(room(), get.total - get.read);
  const wire::GetPiece piece{get.operation, get.sent};
  Fragment fragment = module_.alloc(*get.peer, sizeof piece + size);
  if (!fragment) return false;
  std::memcpy(fragment.data().data(), &piece, sizeof piece);
  OPAL_TRY(gpu::copy(fragment.data().data() + sizeof piece, at(get.base + get.read), size));
  const Post post = module_.send(fragment, wire::kGetPiece);
  if (post == Post::again || post == Post::failed) return false;
  get.read += size;
  get.sent += size;
  return true;
}

// ---- Life

std::size_t GpuTarget::progress() noexcept {
  std::size_t count = copier_.progress();
  for (auto next = transfers_.begin(); next != transfers_.end();) {
    Transfer& transfer = *next++;
    if (transfer.kind == Kind::get) count += advance(transfer);
    if (!transfer.over()) continue;
    if (transfer.kind == Kind::put || transfer.failed()) answer(transfer);
    forget(transfer);
    ++count;
  }
  return count;
}

bool GpuTarget::idle() const noexcept {
  return copier_.pending() == 0 && std::none_of(transfers_.begin(), transfers_.end(), [](const Transfer& transfer) {
           return transfer.kind == Kind::get || transfer.over();
         });
}

}  // namespace opal::btl
