// SPDX-License-Identifier: Apache-2.0
// mpi_shim/attribute/attributes.hpp — attribute caching (MPI_Comm_set_attr etc.): the attributes of one communicator,
// datatype or window, and the keys (keyvals).  Handle is MPI_Comm, MPI_Datatype or MPI_Win.
// An attribute shares the ownership of its key, so a freed key stays valid in the attributes that use it.
// The copy and delete callbacks are functions of the application.  They run without the lock of the Attributes or
// Keyvals, and may change the attributes themselves.  Threads: safe from any thread unless a function says otherwise.
#pragma once
#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>

#include "mpi_shim/include/mpi.h"

namespace mpi_shim::attribute {

/// One key.  Null callbacks stand for MPI_*_NULL_COPY_FN and MPI_*_NULL_DELETE_FN.
template <class Handle>
struct Keyval {
  using Copy = int (*)(Handle, int, void*, void*, void*, int*);
  using Delete = int (*)(Handle, int, void*, void*);
  int number = MPI_KEYVAL_INVALID;
  Copy copy = nullptr;
  Delete destroy = nullptr;
  void* extra_state = nullptr;

  /// Runs the copy callback for one attribute of `from`.  `flag`: whether the duplicate gets an attribute with the
  /// value `out`.  Returns the callback's error code.
  int copy_value(Handle from, void* value, void*& out, bool& flag) const {
    flag = false;
    if (copy == nullptr) return MPI_SUCCESS;                 // MPI_*_NULL_COPY_FN
    if (reinterpret_cast<MPI_Aint>(copy) == kDupFunction) {  // MPI_*_DUP_FN
      out = value;
      flag = true;
      return MPI_SUCCESS;
    }
    int wanted = 0;
    const int error = copy(from, number, extra_state, value, &out, &wanted);
    flag = wanted != 0;
    return error;
  }
  /// Runs the delete callback.  Returns its error code.
  int destroy_value(Handle object, void* value) const {
    return destroy == nullptr ? MPI_SUCCESS : destroy(object, number, value, extra_state);
  }

 private:
  static constexpr MPI_Aint kDupFunction = 1;  // the ABI's value of MPI_COMM_DUP_FN, MPI_TYPE_DUP_FN and MPI_WIN_DUP_FN
};

/// All keys for one kind of object; they are identified by number.
template <class Handle>
class Keyvals {
 public:
  static constexpr int kFirst = 1024;  // above every predefined key

  int create(typename Keyval<Handle>::Copy copy, typename Keyval<Handle>::Delete destroy, void* extra_state) {
    const std::lock_guard guard{mutex_};
    const int number = next_;
    next_ += kKinds;
    keys_[number] = std::make_shared<Keyval<Handle>>(Keyval<Handle>{number, copy, destroy, extra_state});
    return number;
  }
  /// Null if there is no such key or it was freed.
  [[nodiscard]] std::shared_ptr<const Keyval<Handle>> find(int number) const {
    const std::lock_guard guard{mutex_};
    const auto found = keys_.find(number);
    return found == keys_.end() ? nullptr : found->second;
  }
  /// Frees a key; has no effect on a key that is freed already.  False: no key of this number was ever created.
  bool free(int number) {
    const std::lock_guard guard{mutex_};
    keys_.erase(number);
    return was_made(number);
  }
  /// Whether a key of this number exists or was freed.  Attributes of a freed key can still be read and deleted.
  [[nodiscard]] bool was_created(int number) const {
    const std::lock_guard guard{mutex_};
    return was_made(number);
  }

 private:
  // Keys for different kinds of objects have different numbers, so that a key of the wrong kind is detected.
  static constexpr int kKinds = 3;
  static constexpr int kKind = std::is_same_v<Handle, MPI_Comm> ? 0 : std::is_same_v<Handle, MPI_Win> ? 1 : 2;

  [[nodiscard]] bool was_made(int number) const noexcept {
    return number >= kFirst + kKind && number < next_ && (number - kFirst) % kKinds == kKind;
  }

  mutable std::mutex mutex_;
  std::unordered_map<int, std::shared_ptr<const Keyval<Handle>>> keys_;
  int next_ = kFirst + kKind;
};

/// The attributes of one object, which owns them.  `object` and `from` are the object's handle, for the callbacks.
/// While its delete callback runs, an attribute can still be read, but not be deleted again.
template <class Handle>
class Attributes {
 public:
  /// False if the object has no attribute with this key.
  bool get(int number, void*& value) const {
    const std::lock_guard guard{mutex_};
    // The newest entry counts: another thread may have set a value while the delete callback of the old one runs.
    const auto found = std::find_if(entries_.rbegin(), entries_.rend(),
                                    [&](const Entry& entry) { return entry.key->number == number; });
    if (found == entries_.rend()) return false;
    value = found->value;
    return true;
  }

  /// Sets the value, after the delete callback of an earlier value with the same key.  Returns the error code of that
  /// callback; unless it is MPI_SUCCESS, the earlier value stays.
  int set(Handle object, const std::shared_ptr<const Keyval<Handle>>& key, void* value) {
    for (;;) {
      if (const int error = remove(object, key->number); error != MPI_SUCCESS) return error;
      const std::lock_guard guard{mutex_};
      if (find(key->number) != entries_.end()) continue;  // another thread has set one meanwhile
      entries_.push_back({key, value});
      return MPI_SUCCESS;
    }
  }

  /// Removes an attribute; MPI_SUCCESS if the object has none with this key.  Returns the error code of the delete
  /// callback; unless it is MPI_SUCCESS, the attribute stays.
  int remove(Handle object, int number) {
    std::unique_lock lock{mutex_};
    const auto found = find(number);
    return found == entries_.end() ? MPI_SUCCESS : remove(object, found, lock);
  }

  /// Removes all attributes in the reverse order of their setting.  Stops when a delete callback fails, and returns its
  /// error code.
  int clear(Handle object) {
    for (;;) {
      std::unique_lock lock{mutex_};
      const auto last = last_one();
      if (last == entries_.end()) return MPI_SUCCESS;
      if (const int error = remove(object, last, lock); error != MPI_SUCCESS) return error;
    }
  }

  /// As clear(), for an object that is being destroyed: an attribute whose delete callback fails is removed as well.
  void clear_all(Handle object) {
    while (clear(object) != MPI_SUCCESS) {
      const std::lock_guard guard{mutex_};
      const auto last = last_one();
      if (last != entries_.end()) entries_.erase(last);
    }
  }

  /// Copies the attributes to `to`, the attributes of a duplicate, as their copy callbacks decide.  Returns the error
  /// code of the first callback that fails; `to` then keeps the attributes copied before.
  int copy_to(Handle from, Attributes& to) const {
    Entries entries;
    {
      const std::lock_guard guard{mutex_};
      entries = entries_;
    }
    for (const Entry& entry : entries) {
      void* value = nullptr;
      bool wanted = false;
      if (const int error = entry.key->copy_value(from, entry.value, value, wanted); error != MPI_SUCCESS) return error;
      if (!wanted) continue;
      const std::lock_guard guard{to.mutex_};
      to.entries_.push_back({entry.key, value});
    }
    return MPI_SUCCESS;
  }

  /// Moves all attributes of `from` here.  Requires: no other thread uses either object.
  void take(Attributes& from) noexcept { entries_.splice(entries_.end(), from.entries_); }

 private:
  struct Entry {
    std::shared_ptr<const Keyval<Handle>> key;
    void* value;
    bool ends = false;  // its delete callback is running; only remove(), which called it, erases the entry
  };
  using Entries = std::list<Entry>;  // while a callback runs without the lock, its entry keeps its place

  typename Entries::iterator find(int number) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const Entry& entry) { return entry.key->number == number && !entry.ends; });
  }

  typename Entries::iterator last_one() {
    const auto last = std::find_if(entries_.rbegin(), entries_.rend(), [](const Entry& entry) { return !entry.ends; });
    return last == entries_.rend() ? entries_.end() : std::prev(last.base());
  }

  /// Runs the delete callback of the entry without the lock and erases the entry if the callback succeeds.
  int remove(Handle object, typename Entries::iterator at, std::unique_lock<std::mutex>& lock) {
    at->ends = true;
    lock.unlock();
    const int error = at->key->destroy_value(object, at->value);
    lock.lock();
    if (error == MPI_SUCCESS) {
      entries_.erase(at);
    } else {
      at->ends = false;
    }
    return error;
  }

  mutable std::mutex mutex_;
  Entries entries_;  // in the order in which they were set
};

}  // namespace mpi_shim::attribute
