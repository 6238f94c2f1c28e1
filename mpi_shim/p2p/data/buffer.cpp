// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/data/buffer.hpp"

#include <algorithm>
#include <cstdlib>

#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/include/mpi.h"
#include "opal/core/log.hpp"
#include "opal/gpu/copies/copy.hpp"

namespace mpi_shim::p2p {

Buffer Buffer::of_bytes(const void* base, std::uint64_t size) noexcept {
  static const datatype::Datatype& byte = *datatype::predefined(reinterpret_cast<std::uintptr_t>(MPI_BYTE));
  return {base, size, byte};
}

Buffer::Span Buffer::padded_span() const noexcept {
  if (count_ == 0 || type_ == nullptr) return {0, 0};
  const std::int64_t reach = static_cast<std::int64_t>(count_ - 1) * type_->extent();
  const auto [first, last] = std::minmax(
      {type_->lb(), type_->lb() + type_->extent(), type_->true_lb(), type_->true_lb() + type_->true_extent()});
  const std::int64_t offset = first + std::min<std::int64_t>(reach, 0);
  return {offset, static_cast<std::uint64_t>(last + std::max<std::int64_t>(reach, 0) - offset)};
}

void Buffer::start(datatype::Cursor& cursor) const noexcept {
  if (type_ == nullptr) return;
  // Cannot fail: the caller of the constructor has checked fits().
  if (const auto started = cursor.start(*type_, static_cast<void*>(base_), static_cast<std::int64_t>(count_));
      !started) {
    log::error("mpi", "cannot walk through a buffer: {}", to_string(started.error()));
  }
}

void check_copy(const Error& error) noexcept {
  if (error.code == Errc{}) [[likely]]
    return;
  log::error("mpi", "GPU memory of a buffer cannot be copied, so this process ends: {}", to_string(error));
  std::abort();
}

void copy_bytes(void* to, const void* from, std::size_t size) noexcept {
  if (const auto copied = opal::gpu::copy(to, from, size); !copied) check_copy(copied.error());
}

void pack(const Buffer& from, MutableBytes to, std::uint64_t offset) noexcept {
  if (from.contiguous() != nullptr) {
    return copy_bytes(to.data(), from.contiguous() + offset, std::min<std::size_t>(to.size(), from.bytes() - offset));
  }
  datatype::Cursor cursor;
  from.start(cursor);
  cursor.seek(static_cast<std::int64_t>(offset));
  cursor.pack(to);
  check_copy(cursor.failure());
}

void unpack(ByteSpan from, const Buffer& to, std::uint64_t offset) noexcept {
  if (to.contiguous() != nullptr) {
    return copy_bytes(to.contiguous() + offset, from.data(), std::min<std::size_t>(from.size(), to.bytes() - offset));
  }
  datatype::Cursor cursor;
  to.start(cursor);
  cursor.seek(static_cast<std::int64_t>(offset));
  cursor.unpack(from);
  check_copy(cursor.failure());
}

Post send_packed(am::Endpoint& to, Tag tag, ByteSpan header, const Buffer& data, std::uint64_t offset,
                 std::uint64_t bytes) noexcept {
  btl::Fragment fragment = to.alloc(header.size() + bytes);
  if (!fragment) return to.dead() ? Post::failed : Post::again;
  std::memcpy(fragment.data().data(), header.data(), header.size());
  pack(data, fragment.data().subspan(header.size(), bytes), offset);
  fragment.shrink(header.size() + bytes);
  return to.send(fragment, tag);
}

void copy(const Buffer& from, const Buffer& to) noexcept {
  const std::size_t bytes = static_cast<std::size_t>(std::min(from.bytes(), to.bytes()));
  if (bytes == 0) return;
  if (from.contiguous() != nullptr && to.contiguous() != nullptr) [[likely]]
    return copy_bytes(to.contiguous(), from.contiguous(), bytes);
  if (from.contiguous() != nullptr) return unpack({from.contiguous(), bytes}, to);
  if (to.contiguous() != nullptr) return pack(from, {to.contiguous(), bytes});
  datatype::Cursor source;
  datatype::Cursor target;
  from.start(source);
  to.start(target);
  for (std::size_t left = bytes; left != 0;) {
    const datatype::Piece piece = source.next_piece(left);
    if (piece.bytes == 0) break;
    target.unpack({piece.data, piece.bytes});
    left -= piece.bytes;
  }
  check_copy(target.failure());
}

}  // namespace mpi_shim::p2p
