// SPDX-License-Identifier: Apache-2.0
// mpi_shim/op/op.hpp — an MPI reduction operation: predefined, or a function of the application.
// Owned by references (handle::Ref): the application's handle, pending reductions.  Threads: immutable.
#pragma once
#include <cstdint>

#include "mpi_shim/datatype/cursor.hpp"
#include "mpi_shim/datatype/datatype.hpp"
#include "mpi_shim/handle/object.hpp"
#include "mpi_shim/op/kernel.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"

struct MPI_ABI_Datatype;  // what an MPI_Datatype points to; mpi.h itself is not needed here

namespace mpi_shim::op {

using UserFunction = void(void* in, void* inout, int* count, MPI_ABI_Datatype** type);
using LargeUserFunction = void(void* in, void* inout, std::int64_t* count, MPI_ABI_Datatype** type);

class Op final : public handle::Object {
 public:
  static constexpr handle::Kind kKind = handle::Kind::op;

  /// A predefined operation in static storage.
  Op(std::uintptr_t handle, const char* name, OpKind kind) noexcept;
  /// A function of the application; it is called with at most INT_MAX elements at a time.
  Op(UserFunction* function, bool commutes) noexcept;
  /// The same with 64-bit counts.
  Op(LargeUserFunction* function, bool commutes) noexcept;

  [[nodiscard]] OpKind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is_commutative() const noexcept { return commutes_; }
  [[nodiscard]] const char* name() const noexcept { return name_; }

  /// Whether collective reductions take this operation on `type`: a predefined one needs a predefined type for which
  /// the standard defines it and is not REPLACE or NO_OP; the application's own takes every type.
  [[nodiscard]] bool reduces(const datatype::Datatype& type) const noexcept;

  /// inout[i] = in[i] op inout[i] for `count` instances of `type`, for which reduces() is true.
  void apply(const void* in, void* inout, std::int64_t count, const datatype::Datatype& type) const;

 private:
  OpKind kind_;
  bool commutes_;
  const char* name_;
  UserFunction* function_ = nullptr;
  LargeUserFunction* large_function_ = nullptr;
};

/// Whether one-sided accumulation takes `kind` on `type`: all elements alike and the operation defined on them.
[[nodiscard]] bool accumulates(OpKind kind, const datatype::Datatype& type) noexcept;

/// One-sided accumulation: combines packed `elements` with the next bytes under `target`, which walks instances of a
/// type whose uniform element is `element`; GPU memory too, see target.failure().  Errors: invalid_argument (a part of
/// an element, more than the target holds, an operation undefined on the element); then the target is unchanged.
opal::Result<void> accumulate(OpKind kind, datatype::Element element, opal::ByteSpan elements,
                              datatype::Cursor& target);

/// inout = in op inout for packed elements; the bytes are whole elements, and `kind` is defined on them.
void combine_packed(OpKind kind, datatype::Element element, opal::ByteSpan in, opal::MutableBytes inout) noexcept;

/// The operation with this handle value, e.g. 0x21 for MPI_SUM, which lives until the process ends; null when there is
/// none (MPI_OP_NULL included).
Op* predefined(std::uintptr_t handle);

/// Publishes all that the ABI names in the handle table; once, while MPI is started.
void publish_predefined_ops();

}  // namespace mpi_shim::op
