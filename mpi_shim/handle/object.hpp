// SPDX-License-Identifier: Apache-2.0
// mpi_shim/handle/object.hpp — the base of every object that an MPI handle names: a magic word and a reference count.
// Owned by its references: the application's handle is one, every pending use another; the last release destroys it.
// Threads: retain, release and magic from any thread; other functions as the derived class says.
// Invariants: the magic word holds the kind, and whether the handle is valid (findable).  Predefined objects (handles
// below 0x400) are not reference-counted and not destroyed by release().
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "mpi_shim/handle/arena.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::handle {

enum class Kind : std::uint8_t {
  comm = 1,
  datatype,
  errhandler,
  file,
  group,
  info,
  message,
  op,
  request,
  session,
  win,
};

/// Handles below this value name predefined objects.
inline constexpr std::uintptr_t kBuiltinEnd = 0x400;

class Object;
template <class T>
class Ref;
template <class T>
class Slot;
template <class T, class... Args>
Ref<T> create_in(Slot<T> slot, Args&&... args);

class Object {
 public:
  /// The magic word of an object of this kind that the application may name.
  static constexpr std::uint64_t live_magic(Kind kind) noexcept {
    return 0x6f70616c'4d504900U | static_cast<std::uint8_t>(kind);
  }

  [[nodiscard]] std::uint64_t magic() const noexcept { return magic_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_predefined() const noexcept { return predefined_ != 0; }

  /// The application's handle: the ABI's small integer for a predefined object, the address of any other.
  [[nodiscard]] std::uintptr_t handle() const noexcept {
    return predefined_ != 0 ? predefined_ : reinterpret_cast<std::uintptr_t>(this);
  }

  void retain() noexcept {
    if (predefined_ == 0) references_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() noexcept {
    if (predefined_ != 0) return;
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy_(this);
  }

  /// Sets whether find() (table.hpp) accepts the handle.  False for objects that the application must not name: unused
  /// objects of a pool, and objects that the library uses internally.
  void set_findable(bool findable, Kind kind) noexcept {
    magic_.store(findable ? live_magic(kind) : kRetired, std::memory_order_relaxed);
  }

  /// Ends the application's handle: find() rejects it, and its reference is released.  Pending uses keep the object.
  /// Requires: called once.  No effect on a predefined object.
  void retire() noexcept {
    if (predefined_ != 0) return;
    magic_.store(kRetired, std::memory_order_relaxed);
    release();
  }

 protected:
  /// `predefined` is the ABI's value below kBuiltinEnd for an object in static storage, 0 for one made by create().
  explicit Object(Kind kind, std::uintptr_t predefined = 0) noexcept
      : magic_(live_magic(kind)), predefined_(static_cast<std::uint32_t>(predefined)) {}
  ~Object() = default;

 private:
  template <class T, class... Args>
  friend Ref<T> create_in(Slot<T> slot, Args&&... args);

  static constexpr std::uint64_t kRetired = 0x72657469'72656400U;

  std::atomic<std::uint64_t> magic_;
  void (*destroy_)(Object*) noexcept = nullptr;
  std::atomic<std::uint32_t> references_{1};
  std::uint32_t predefined_;
};

/// One counted reference to a T, or empty.  Threads: as a pointer.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  /// Takes one more reference to `object`.
  static Ref share(T& object) noexcept {
    object.retain();
    return adopt(&object);
  }
  /// Takes over a reference that exists already; does not count.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  explicit operator bool() const noexcept { return object_ != nullptr; }
  T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  /// Passes the reference to the caller, which has to call release() later; for the application's handle retire().
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

/// Memory in the arena for a T that create_in() makes later; the handle is known before.  The destructor frees memory
/// that was not used.
template <class T>
class Slot {
 public:
  /// Errors: no_memory.
  static opal::Result<Slot> reserve() {
    static_assert(sizeof(T) <= Arena::kMaxSlot && alignof(T) <= Arena::kSlotUnit);
    void* const memory = Arena::process().allocate(sizeof(T));
    if (memory == nullptr) return opal::Error{opal::Errc::no_memory, 0, "handle::create", sizeof(T)};
    return Slot{memory};
  }
  Slot(Slot&& other) noexcept : memory_(other.release()) {}
  ~Slot() {
    if (memory_ != nullptr) Arena::process().release(memory_, sizeof(T));
  }

  /// The handle that the object will have; find() rejects it until the object exists.
  [[nodiscard]] std::uintptr_t handle() const noexcept { return reinterpret_cast<std::uintptr_t>(memory_); }
  /// Passes the memory to the caller.
  [[nodiscard]] void* release() noexcept { return std::exchange(memory_, nullptr); }

 private:
  explicit Slot(void* memory) noexcept : memory_(memory) {}
  void* memory_;
};

/// Constructs a T in the memory of `slot`.
template <class T, class... Args>
Ref<T> create_in(Slot<T> slot, Args&&... args) {
  T* object = std::construct_at(static_cast<T*>(slot.release()), std::forward<Args>(args)...);
  Object* base = object;
  base->destroy_ = [](Object* dying) noexcept {
    auto* whole = static_cast<T*>(dying);
    whole->~T();
    Arena::process().release(whole, sizeof(T));
  };
  return Ref<T>::adopt(object);
}

/// Constructs a T in the arena.  Errors: no_memory.
template <class T, class... Args>
opal::Result<Ref<T>> create(Args&&... args) {
  OPAL_TRY_ASSIGN(Slot<T> slot, Slot<T>::reserve());
  return create_in(std::move(slot), std::forward<Args>(args)...);
}

}  // namespace mpi_shim::handle
