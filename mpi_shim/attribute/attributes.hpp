// SPDX-License-Identifier: Apache-2.0
// mpi_shim/attribute/attributes.hpp — what programs hang on communicators, datatypes and windows (Handle: MPI_Comm,
// MPI_Datatype, MPI_Win), and the keys for it.  A key that was freed lives on in the attributes that use it.
// Callbacks are the program's: they run without any lock held, and may themselves change the attributes.
// Threads: safe from any thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "mpi_shim/include/mpi.h"

namespace mpi_shim::attribute {

template <class Handle>
struct Keyval {
  using Copy = int (*)(Handle, int, void*, void*, void*, int*);
  using Delete = int (*)(Handle, int, void*, void*);
  int number = MPI_KEYVAL_INVALID;
  Copy copy = nullptr;
  Delete destroy = nullptr;
  void* extra_state = nullptr;

  /// Asks the copy callback; `flag` says whether the new object gets `out`.  An error code.
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
  int destroy_value(Handle object, void* value) const {
    return destroy == nullptr ? MPI_SUCCESS : destroy(object, number, value, extra_state);
  }

 private:
  static constexpr MPI_Aint kDupFunction = 1;  // the ABI's value of MPI_COMM_DUP_FN and its like
};

/// The keys of one kind of object.
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
  /// Null: no such key.
  [[nodiscard]] std::shared_ptr<const Keyval<Handle>> find(int number) const {
    const std::lock_guard guard{mutex_};
    const auto found = keys_.find(number);
    return found == keys_.end() ? nullptr : found->second;
  }
  /// Freeing a key again is fine: it lives on in the attributes that use it.  False: it was never made.
  bool free(int number) {
    const std::lock_guard guard{mutex_};
    keys_.erase(number);
    return was_made(number);
  }
  /// Whether there is or was a key of this number: attributes may outlive theirs.
  [[nodiscard]] bool was_created(int number) const {
    const std::lock_guard guard{mutex_};
    return was_made(number);
  }

 private:
  // Keys of different kinds of objects have different numbers, so that none is taken for another's.
  static constexpr int kKinds = 3;
  static constexpr int kKind = std::is_same_v<Handle, MPI_Comm> ? 0 : std::is_same_v<Handle, MPI_Win> ? 1 : 2;

  [[nodiscard]] bool was_made(int number) const noexcept {
    return number >= kFirst + kKind && number < next_ && (number - kFirst) % kKinds == kKind;
  }

  mutable std::mutex mutex_;
  std::unordered_map<int, std::shared_ptr<const Keyval<Handle>>> keys_;
  int next_ = kFirst + kKind;
};

/// While its delete callback runs, an attribute can still be read, but not be deleted again.
template <class Handle>
class Attributes {
 public:
  bool get(int number, void*& value) const {
    const std::lock_guard guard{mutex_};
    // A value that replaces one whose callback runs stands behind it.
    const auto found = std::find_if(entries_.rbegin(), entries_.rend(),
                                    [&](const Entry& entry) { return entry.key->number == number; });
    if (found == entries_.rend()) return false;
    value = found->value;
    return true;
  }

  /// Replaces an earlier value after its delete callback.  An error code; with one, the earlier value stays.
  int set(Handle object, const std::shared_ptr<const Keyval<Handle>>& key, void* value) {
    for (;;) {
      if (const int error = remove(object, key->number); error != MPI_SUCCESS) return error;
      const std::lock_guard guard{mutex_};
      if (find(key->number) != entries_.end()) continue;  // another thread has set one meanwhile
      entries_.push_back({key, value, ++last_id_});
      return MPI_SUCCESS;
    }
  }

  /// An error code, after which the attribute stays; removing what is not there is fine.
  int remove(Handle object, int number) {
    std::unique_lock lock{mutex_};
    const auto found = find(number);
    return found == entries_.end() ? MPI_SUCCESS : remove(object, found, lock);
  }

  /// Removes all, the last one set first, up to the first whose callback fails.  Its error code.
  int clear(Handle object) {
    for (;;) {
      std::unique_lock lock{mutex_};
      const auto last = last_one();
      if (last == entries_.end()) return MPI_SUCCESS;
      if (const int error = remove(object, last, lock); error != MPI_SUCCESS) return error;
    }
  }

  /// Removes all of an object that ends whatever the callbacks say.
  void clear_all(Handle object) {
    while (clear(object) != MPI_SUCCESS) {
      const std::lock_guard guard{mutex_};
      const auto last = last_one();
      if (last != entries_.end()) entries_.erase(last);
    }
  }

  /// Gives `to` what the copy callbacks of `from`'s attributes want it to have.  An error code; with one, `to` has what
  /// was copied before.
  int copy_to(Handle from, Attributes& to) const {
    std::vector<Entry> entries;
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
      to.entries_.push_back({entry.key, value, ++to.last_id_});
    }
    return MPI_SUCCESS;
  }

  /// Becomes the owner of all that `from` has; nothing else uses either.
  void take(Attributes& from) noexcept {
    entries_ = std::move(from.entries_);
    last_id_ = from.last_id_;
    from.entries_.clear();
  }

 private:
  struct Entry {
    std::shared_ptr<const Keyval<Handle>> key;
    void* value;
    std::uint64_t id;
    bool ends = false;  // its delete callback runs
  };
  using Entries = std::vector<Entry>;

  typename Entries::iterator find(int number) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const Entry& entry) { return entry.key->number == number && !entry.ends; });
  }

  typename Entries::iterator last_one() {
    const auto last = std::find_if(entries_.rbegin(), entries_.rend(), [](const Entry& entry) { return !entry.ends; });
    return last == entries_.rend() ? entries_.end() : std::prev(last.base());
  }

  /// The callback may change the entries, so that it is looked for again afterwards.
  int remove(Handle object, typename Entries::iterator at, std::unique_lock<std::mutex>& lock) {
    at->ends = true;
    const Entry entry = *at;
    lock.unlock();
    const int error = entry.key->destroy_value(object, entry.value);
    lock.lock();
    const auto same = [&](const Entry& other) { return other.id == entry.id; };
    const auto left = std::find_if(entries_.begin(), entries_.end(), same);
    if (left == entries_.end()) return error;
    if (error == MPI_SUCCESS) {
      entries_.erase(left);
    } else {
      left->ends = false;
    }
    return error;
  }

  mutable std::mutex mutex_;
  Entries entries_;  // in the order in which they were set
  std::uint64_t last_id_ = 0;
};

}  // namespace mpi_shim::attribute
