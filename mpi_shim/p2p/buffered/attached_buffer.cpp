// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/buffered/attached_buffer.hpp"

#include <algorithm>

namespace mpi_shim::p2p {

/// MPI_Buffer_iflush: done when the messages that were in the buffer at the call have left.
class AttachedBuffer::Flush final : public Request {
 public:
  Flush(std::uint64_t up_to, std::size_t pending) noexcept
      : Request(kActions, nullptr), up_to_(up_to), pending_(pending) {}

  /// The message `number` has left.  True: it was the last one that the flush waits for.
  bool left(std::uint64_t number) noexcept { return number <= up_to_ && --pending_ == 0; }
  void end() noexcept { finish(); }

 private:
  static const Actions kActions;
  const std::uint64_t up_to_;
  std::size_t pending_;
};

const Request::Actions AttachedBuffer::Flush::kActions{act<&Flush::begin>, act<&Object::retire>};

bool AttachedBuffer::attach(void* memory, std::uint64_t size) {
  const am::Lock::Guard guard{vcis_.lock()};
  if (attached_) return false;
  attached_ = true;
  automatic_ = memory == MPI_BUFFER_AUTOMATIC;
  base_ = static_cast<std::byte*>(memory);
  size_ = automatic_ ? 0 : size;
  return true;
}

std::optional<AttachedBuffer::Memory> AttachedBuffer::detach() {
  for (;;) {
    flush();
    const am::Lock::Guard guard{vcis_.lock()};
    if (!attached_) return std::nullopt;
    if (!pieces_.empty()) continue;  // of another thread, since flush()
    attached_ = false;
    return Memory{base_, size_};
  }
}

AttachedBuffer::Piece* AttachedBuffer::reserve(std::uint64_t size) {
  if (!attached_) return nullptr;
  if (automatic_) {
    return &pieces_.emplace_back(
        Piece{this, ++sent_, 0, size, std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(size))});
  }
  std::uint64_t end = 0;  // of the previous piece
  for (auto next = pieces_.begin();; ++next) {
    const std::uint64_t room_end = next == pieces_.end() ? size_ : next->offset;
    if (room_end - end >= size) return &*pieces_.insert(next, Piece{this, ++sent_, end, size, nullptr});
    if (next == pieces_.end()) return nullptr;
    end = next->offset + next->size;
  }
}

int AttachedBuffer::send(Engine& engine, Channel& channel, const Buffer& message, int destination, int tag) {
  if (!attached()) return MPI_ERR_BUFFER;
  // Reserves room even if the transport copies the message at once: the standard requires an error without room.
  const auto find_room = [&] {
    const am::Lock::Guard guard{vcis_.lock()};
    return reserve(message.bytes());
  };
  Piece* piece = find_room();
  if (piece == nullptr) {
    vcis_.progress();
    piece = find_room();
    if (piece == nullptr) return MPI_ERR_BUFFER;
  }
  std::byte* const memory = piece->own != nullptr ? piece->own.get() : base_ + piece->offset;
  if (message.bytes() != 0) pack(message, {memory, static_cast<std::size_t>(message.bytes())});
  Request& send = engine.new_send(channel, Buffer::of_bytes(memory, message.bytes()), destination, tag, Mode::standard);
  send.set_watcher({[](void* object, Request& done) noexcept {
                      done.put_back();
                      auto& sent = *static_cast<Piece*>(object);
                      sent.owner->left(sent);
                    },
                    piece});
  send.start();
  vcis_.wake_sleepers();  // the message may have left already, and a thread in flush() sleeps until it has
  return MPI_SUCCESS;
}

void AttachedBuffer::left(Piece& piece) noexcept {
  const am::Lock::Guard guard{vcis_.lock()};
  const std::uint64_t number = piece.number;
  pieces_.erase(std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& other) { return &other == &piece; }));
  std::vector<Flush*> over;
  std::erase_if(flushes_, [&](Flush* flush) {
    if (!flush->left(number)) return false;
    over.push_back(flush);
    return true;
  });
  for (Flush* flush : over) flush->end();
}

void AttachedBuffer::flush() noexcept {
  std::uint64_t up_to = 0;
  {
    const am::Lock::Guard guard{vcis_.lock()};
    up_to = sent_;
  }
  vcis_.wait_until(vcis_.all(), [&] {
    const am::Lock::Guard guard{vcis_.lock()};
    return std::none_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.number <= up_to; });
  });
}

Result<Request*> AttachedBuffer::start_flush() {
  const am::Lock::Guard guard{vcis_.lock()};
  OPAL_TRY_ASSIGN(handle::Ref<Flush> flush, handle::create<Flush>(sent_, pieces_.size()));
  Flush& started = *flush.detach();  // the program's; ends with put_back()
  started.start();
  if (pieces_.empty()) {
    started.end();
  } else {
    flushes_.push_back(&started);
  }
  return &started;
}

}  // namespace mpi_shim::p2p
