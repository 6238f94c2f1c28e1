// SPDX-License-Identifier: Apache-2.0
// mpi_shim/handle/table.hpp — from the handle that an application passes to the object, and back.
// `h < 0x400 ? builtin[h] : object(h)`, checked: null, freed, of another kind and garbage all give a null pointer.
// Threads: lookups from any thread; builtins are set while MPI is started, before there are others.
#pragma once
#include <array>
#include <cstdint>

#include "mpi_shim/handle/arena.hpp"
#include "mpi_shim/handle/object.hpp"

namespace mpi_shim::handle {

/// The predefined objects by handle value; null where the ABI names none or MPI is not started yet.
/// One per process like the handles themselves: values such as MPI_COMM_WORLD carry no context.
inline constinit std::array<Object*, kBuiltinEnd> builtins{};

/// Publishes a predefined object under its own handle value.
inline void set_builtin(Object& object) noexcept { builtins[object.handle()] = &object; }
/// Forgets a predefined object that is about to end.
inline void clear_builtin(const Object& object) noexcept { builtins[object.handle()] = nullptr; }

/// The live T that `handle` names; null for a null handle, a freed one, one of another kind, or garbage.
/// T has `static constexpr Kind kKind` and Object as its first base.
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

/// A handle as an integer: predefined ones keep their value, any other has its slot's number behind them.
template <class Handle>
[[nodiscard]] int to_integer(Handle handle) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value < kBuiltinEnd || !Arena::process().is_slot_address(value)) return static_cast<int>(value);
  return Arena::process().slot_number(value) + static_cast<int>(kBuiltinEnd);
}
/// The handle that to_integer() made the integer of; any other integer gives a handle that names nothing.
template <class Handle>
[[nodiscard]] Handle from_integer(int integer) noexcept {
  constexpr int kSlots = static_cast<int>(kBuiltinEnd);
  if (integer < 0) return nullptr;
  if (integer < kSlots) return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(integer));
  return reinterpret_cast<Handle>(Arena::process().slot_address(integer - kSlots));
}

}  // namespace mpi_shim::handle
