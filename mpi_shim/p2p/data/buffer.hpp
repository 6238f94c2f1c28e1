// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/data/buffer.hpp — a program's buffer as a message: an address, a count and a datatype, and whether its
// bytes lie one after the other.  A value; borrows the memory and the datatype.
#pragma once
#include <cstdint>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/datatype/cursor.hpp"
#include "mpi_shim/datatype/datatype.hpp"
#include "opal/gpu/memory.hpp"

namespace mpi_shim::p2p {

class Buffer {
 public:
  /// No bytes at all.
  Buffer() noexcept = default;
  /// `count` instances of `type`, which together have a size (see fits()).
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

  /// False when sizes or addresses would not fit 63 bits.
  static bool fits(std::uint64_t count, const datatype::Datatype& type) noexcept {
    return count < (1U << 31)
               ? type.size() < (std::int64_t{1} << 31) || type.packed_size(static_cast<std::int64_t>(count))
               : type.packed_size(static_cast<std::int64_t>(count)).has_value();
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] const datatype::Datatype& type() const noexcept { return *type_; }
  /// Not one of the predefined types, which live for ever.
  [[nodiscard]] bool has_derived_type() const noexcept { return type_ != nullptr && !type_->is_predefined(); }
  /// A reference to the type for an operation that outlives the call.
  [[nodiscard]] datatype::DatatypeRef share_type() const noexcept {
    return datatype::DatatypeRef::share(const_cast<datatype::Datatype&>(*type_));  // only the count changes
  }
  /// Where all bytes of the message lie one after the other; null when they do not.
  [[nodiscard]] std::byte* contiguous() const noexcept { return contiguous_; }

  /// Elements [first, first + count).
  [[nodiscard]] Buffer part(std::uint64_t first, std::uint64_t count) const noexcept {
    return {base_ + static_cast<std::int64_t>(first) * type_->extent(), count, *type_};
  }
  /// The same elements at another address.
  [[nodiscard]] Buffer at(const void* base) const noexcept { return {base, count_, *type_}; }

  /// The memory that the elements touch, gaps included: `size` bytes from base() + offset on.
  struct Span {
    std::int64_t offset;
    std::uint64_t size;
  };
  [[nodiscard]] Span span() const noexcept;
  /// The same with the padding around each element, which an operation of the program may write as well.
  [[nodiscard]] Span padded_span() const noexcept;

  /// Its memory is a GPU's: of the first byte, which tells for all.
  [[nodiscard]] bool on_gpu() const noexcept { return bytes_ != 0 && !opal::gpu::is_host(base_ + span().offset); }

  /// Stands a cursor before the first byte.
  void start(datatype::Cursor& cursor) const noexcept;

 private:
  inline static std::byte nothing{};

  std::byte* base_ = nullptr;
  std::byte* contiguous_ = &nothing;
  std::uint64_t bytes_ = 0;
  std::uint64_t count_ = 0;
  const datatype::Datatype* type_ = nullptr;
};

// Between host memory the functions below cannot fail.  A failed copy of GPU memory ends the process, with a message:
// after it a CUDA context is of no more use, and no other rank can make up for the bytes.

/// Ends the process if `error`, of a copy over a buffer's memory, is one.
void check_copy(const Error& error) noexcept;
/// GPU memory or host memory, in either direction.
void copy_bytes(void* to, const void* from, std::size_t size) noexcept;

/// Packs the message from byte `offset` on into `to`, as much as both have.
void pack(const Buffer& from, MutableBytes to, std::uint64_t offset = 0) noexcept;
/// Unpacks what there is to the message's bytes from `offset` on, at most to its end.
void unpack(ByteSpan from, const Buffer& to, std::uint64_t offset = 0) noexcept;

/// The bytes of `from`, as far as both reach, into `to`.  The buffers do not overlap, unless they are the same.
void copy(const Buffer& from, const Buffer& to) noexcept;

}  // namespace mpi_shim::p2p
