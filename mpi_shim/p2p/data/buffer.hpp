// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/data/buffer.hpp — the data of a message: an address, a count and a datatype, and whether its bytes are
// contiguous.  A value; borrows the memory and the datatype.
#pragma once
#include <algorithm>
#include <cstdint>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/datatype/cursor.hpp"
#include "mpi_shim/datatype/datatype.hpp"
#include "opal/am/endpoint.hpp"
#include "opal/gpu/memory.hpp"

namespace mpi_shim::p2p {

class Buffer {
 public:
  /// An empty message without a datatype.
  Buffer() noexcept = default;
  /// `count` elements of `type`.  Requires: fits(count, type).
  Buffer(const void* base, std::uint64_t count, const datatype::Datatype& type) noexcept
      : base_(static_cast<std::byte*>(const_cast<void*>(base))),  // a buffer that is sent is only read
        bytes_(count * static_cast<std::uint64_t>(type.size())),
        count_(count),
        type_(&type) {
    if (bytes_ == 0) {
      contiguous_ = &nothing;
    } else {
      contiguous_ = type.is_contiguous(static_cast<std::int64_t>(count)) ? base_ + type.true_lb() : nullptr;
    }
  }
  /// `size` bytes at `base`.
  static Buffer of_bytes(const void* base, std::uint64_t size) noexcept;

  /// False: the packed size or the addresses do not fit 63 bits.
  static bool fits(std::uint64_t count, const datatype::Datatype& type) noexcept {
    return count < (1U << 31)
               ? type.size() < (std::int64_t{1} << 31) || type.packed_size(static_cast<std::int64_t>(count))
               : type.packed_size(static_cast<std::int64_t>(count)).has_value();
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Requires: not a Buffer{}; likewise for share_type() and part().
  [[nodiscard]] const datatype::Datatype& type() const noexcept { return *type_; }
  /// Whether the program can free the type.  Predefined types are never freed.
  [[nodiscard]] bool has_derived_type() const noexcept { return type_ != nullptr && !type_->is_predefined(); }
  /// A reference to the type for an operation that outlives the call.
  [[nodiscard]] datatype::DatatypeRef share_type() const noexcept {
    return datatype::DatatypeRef::share(const_cast<datatype::Datatype&>(*type_));  // only the count changes
  }
  /// The address of the first byte if the bytes of the message are contiguous; else null.  Not null for 0 bytes.
  [[nodiscard]] std::byte* contiguous() const noexcept { return contiguous_; }

  /// Elements [first, first + count).
  [[nodiscard]] Buffer part(std::uint64_t first, std::uint64_t count) const noexcept {
    return {base_ + static_cast<std::int64_t>(first) * type_->extent(), count, *type_};
  }
  /// The same elements at another address.
  [[nodiscard]] Buffer at(const void* base) const noexcept {
    Buffer moved = *this;
    moved.base_ = static_cast<std::byte*>(const_cast<void*>(base));
    if (contiguous_ != nullptr && bytes_ != 0) moved.contiguous_ = moved.base_ + type_->true_lb();
    return moved;
  }

  /// The memory from the first to the last byte of the elements, gaps included: `size` bytes from base() + offset on.
  struct Span {
    std::int64_t offset;
    std::uint64_t size;
  };
  [[nodiscard]] Span span() const noexcept {
    if (count_ == 0 || type_ == nullptr) return {0, 0};
    // With a negative extent the first element has the highest address.
    const std::int64_t reach = static_cast<std::int64_t>(count_ - 1) * type_->extent();
    return {type_->true_lb() + std::min<std::int64_t>(reach, 0),
            static_cast<std::uint64_t>(type_->true_extent() + (reach < 0 ? -reach : reach))};
  }
  /// As span(), with the padding of the first and last element: an operation of the program may write it.
  [[nodiscard]] Span padded_span() const noexcept;

  /// Whether the memory is a GPU's.  Tests the first byte; all bytes are in the same kind of memory.
  [[nodiscard]] bool on_gpu() const noexcept { return bytes_ != 0 && !opal::gpu::is_host(base_ + span().offset); }

  /// Sets a cursor to the first byte.
  void start(datatype::Cursor& cursor) const noexcept;

 private:
  inline static std::byte nothing{};

  std::byte* base_ = nullptr;
  std::byte* contiguous_ = &nothing;
  std::uint64_t bytes_ = 0;
  std::uint64_t count_ = 0;
  const datatype::Datatype* type_ = nullptr;
};

// The functions below cannot fail for host memory.  A failed copy of GPU memory logs an error and aborts the process:
// its CUDA context is unusable afterwards, and no other rank has the bytes.

/// Logs and aborts the process if `error`, the result of a copy of a buffer, is an error.
void check_copy(const Error& error) noexcept;
/// Copies `size` bytes; either side may be GPU memory.
void copy_bytes(void* to, const void* from, std::size_t size) noexcept;

/// Packs the message from byte `offset` on into `to`, until one of both ends.
void pack(const Buffer& from, MutableBytes to, std::uint64_t offset = 0) noexcept;
/// Unpacks `from` into the message from its byte `offset` on, until one of both ends.
void unpack(ByteSpan from, const Buffer& to, std::uint64_t offset = 0) noexcept;

/// Copies min(from.bytes(), to.bytes()) bytes.  The buffers do not overlap, unless they are the same.
void copy(const Buffer& from, const Buffer& to) noexcept;

// --- Messages.  Threads: under the Context's lock.

/// As send_part(), for bytes that are not contiguous: packs them into a fragment of the transport.
Post send_packed(am::Endpoint& to, Tag tag, ByteSpan header, const Buffer& data, std::uint64_t offset,
                 std::uint64_t bytes) noexcept;

/// Sends `header` and the bytes [offset, offset + bytes) of `data` to a peer as one active message.
inline Post send_part(am::Endpoint& to, Tag tag, ByteSpan header, const Buffer& data, std::uint64_t offset,
                      std::uint64_t bytes) noexcept {
  if (bytes == 0) return to.send_inline(tag, header, {});
  if (data.contiguous() == nullptr) return send_packed(to, tag, header, data, offset, bytes);
  return to.send_inline(tag, header, {data.contiguous() + offset, bytes});
}

}  // namespace mpi_shim::p2p
