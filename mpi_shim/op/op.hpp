// SPDX-License-Identifier: Apache-2.0
// mpi_shim/op/op.hpp — an MPI reduction operation: predefined, or a function of the application.
// Owned by references (handle::Ref): the application's handle and pending reductions.  Threads: immutable.
#pragma once
#include <cstdint>
#include <vector>

#include "mpi_shim/datatype/cursor.hpp"
#include "mpi_shim/datatype/datatype.hpp"
#include "mpi_shim/handle/object.hpp"
#include "mpi_shim/op/kernel.hpp"
#include "opal/core/bytes.hpp"

struct MPI_ABI_Datatype;  // MPI_Datatype is a pointer to it in mpi.h

namespace mpi_shim::op {

using UserFunction = void(void* in, void* inout, int* count, MPI_ABI_Datatype** type);
using LargeUserFunction = void(void* in, void* inout, std::int64_t* count, MPI_ABI_Datatype** type);

class Op final : public handle::Object {
 public:
  static constexpr handle::Kind kKind = handle::Kind::op;

  /// A predefined operation in static storage.
  Op(std::uintptr_t handle, const char* name, OpKind kind) noexcept;
  /// A function of the application; apply() calls it with at most INT_MAX elements at a time.
  Op(UserFunction* function, bool commutes) noexcept;
  /// A function of the application with 64-bit counts; apply() calls it once.
  Op(LargeUserFunction* function, bool commutes) noexcept;

  [[nodiscard]] OpKind kind() const noexcept { return kind_; }
  /// Whether it is a function of the application.
  [[nodiscard]] bool is_user_defined() const noexcept { return function_ != nullptr || large_function_ != nullptr; }
  [[nodiscard]] bool is_commutative() const noexcept { return commutes_; }
  [[nodiscard]] const char* name() const noexcept { return name_; }

  /// Whether collective reductions allow this operation on `type`.  A user-defined operation allows every type. REPLACE
  /// and NO_OP allow none.  Any other allows the predefined types on which the standard defines it.
  [[nodiscard]] bool reduces(const datatype::Datatype& type) const noexcept;

  /// inout[i] = in[i] op inout[i] for `count` instances of `type`.  Requires: reduces(type); host memory for a
  /// predefined operation.
  void apply(const void* in, void* inout, std::int64_t count, const datatype::Datatype& type) const;

 private:
  OpKind kind_;
  bool commutes_;
  const char* name_;
  UserFunction* function_ = nullptr;
  LargeUserFunction* large_function_ = nullptr;
};

/// Whether one-sided accumulation allows `kind` on `type`: all elements are equal and the operation is defined on them.
[[nodiscard]] bool accumulates(OpKind kind, const datatype::Datatype& type) noexcept;

/// One-sided accumulation: combines the packed `elements` with the next elements at the cursor `target`, and moves it
/// after them.  Requires: the datatype of `target` has the uniform element `element`; otherwise the result is
/// undefined, but no other memory is touched.  The target may be GPU memory; the caller then checks target.failure().
/// `scratch`: memory for a copy of GPU memory or pairs; keeps its capacity.
/// False, and the target is unchanged: not a whole number of elements, more than target.remaining(), or the operation
/// is not defined on the element.
bool accumulate(OpKind kind, datatype::Element element, opal::ByteSpan elements, datatype::Cursor& target,
                std::vector<std::byte>& scratch);

/// inout = in op inout for packed elements in host memory.  Requires: both spans have the same number of whole
/// elements, and `kind` is defined on them.
void combine_packed(OpKind kind, datatype::Element element, opal::ByteSpan in, opal::MutableBytes inout) noexcept;

/// The operation with this handle value, e.g. 0x21 for MPI_SUM; it lives until the process ends.  Null if there is
/// none, and for MPI_OP_NULL.
Op* predefined(std::uintptr_t handle);

/// Publishes all predefined operations in the handle table.  Called once, during MPI_Init.
void publish_predefined_ops();

}  // namespace mpi_shim::op
