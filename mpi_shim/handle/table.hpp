// SPDX-License-Identifier: Apache-2.0
// mpi_shim/handle/table.hpp — converts the application's handle to the object and back.  A handle below 0x400 is an
// index into `builtins`, any other the address of the object.
// Threads: find() from any thread; builtins are set in MPI_Init, and those of communicators are cleared in
// MPI_Finalize, while no other thread uses MPI.
#pragma once
#include <array>
#include <cstdint>

#include "mpi_shim/handle/arena.hpp"
#include "mpi_shim/handle/object.hpp"

namespace mpi_shim::handle {

/// The predefined objects by handle value; null if the ABI defines no such handle or MPI_Init has not set it yet.
/// One table per process, since values such as MPI_COMM_WORLD are constants of the process.
inline constinit std::array<Object*, kBuiltinEnd> builtins{};

/// Publishes a predefined object under its own handle value.
inline void set_builtin(Object& object) noexcept { builtins[object.handle()] = &object; }
/// Removes a predefined object from the table, before it is destroyed.
inline void clear_builtin(const Object& object) noexcept { builtins[object.handle()] = nullptr; }

/// The T that `handle` names; null for a null handle, a freed one, one of another kind, and a value that is no handle.
/// Borrowed: valid until the application's handle or the caller's own reference ends.
/// Requires: T has `static constexpr Kind kKind` and Object as its first base.
template <class T, class Handle>
[[nodiscard]] T* find(Handle handle) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  Object* object = nullptr;
  if (value < kBuiltinEnd) {
    object = builtins[value];
    if (object == nullptr) return nullptr;
  } else {
    if (!Arena::process().is_slot_address(value)) return nullptr;
    object = reinterpret_cast<Object*>(value);
  }
  return object->magic() == Object::live_magic(T::kKind) ? static_cast<T*>(object) : nullptr;
}

/// The handle of `object` in the ABI's pointer type.
template <class Handle>
[[nodiscard]] Handle to_handle(const Object& object) noexcept {
  return reinterpret_cast<Handle>(object.handle());
}

/// A handle as an integer for Fortran: the value of a predefined handle, else kBuiltinEnd + the slot number in the
/// arena.
template <class Handle>
[[nodiscard]] int to_integer(Handle handle) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value < kBuiltinEnd || !Arena::process().is_slot_address(value)) return static_cast<int>(value);
  return Arena::process().slot_number(value) + static_cast<int>(kBuiltinEnd);
}
/// The inverse of to_integer(); for any other integer a handle that find() rejects.
template <class Handle>
[[nodiscard]] Handle from_integer(int integer) noexcept {
  constexpr int kSlots = static_cast<int>(kBuiltinEnd);
  if (integer < 0) return nullptr;
  if (integer < kSlots) return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(integer));
  return reinterpret_cast<Handle>(Arena::process().slot_address(integer - kSlots));
}

}  // namespace mpi_shim::handle
