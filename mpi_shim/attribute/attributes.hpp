// SPDX-License-Identifier: Apache-2.0
// mpi_shim/attribute/attributes.hpp — what programs hang on communicators, datatypes and windows (Handle: MPI_Comm,
// MPI_Datatype, MPI_Win), and the keys for it.  A key that was freed lives on in the attributes that use it.
// Callbacks are the program's: they run without any lock held.  Threads: externally synchronised per object.
#pragma once
#include <memory>
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
    const int number = next_;
    next_ += kKinds;
    keys_[number] = std::make_shared<Keyval<Handle>>(Keyval<Handle>{number, copy, destroy, extra_state});
    return number;
  }
  /// Null: no such key.
  [[nodiscard]] std::shared_ptr<const Keyval<Handle>> find(int number) const {
    const auto found = keys_.find(number);
    return found == keys_.end() ? nullptr : found->second;
  }
  /// Freeing a key again is fine: it lives on in the attributes that use it.  False: it was never made.
  bool free(int number) {
    keys_.erase(number);
    return number >= kFirst + kKind && number < next_ && (number - kFirst) % kKinds == kKind;
  }

 private:
  // Keys of different kinds of objects have different numbers, so that none is taken for another's.
  static constexpr int kKinds = 3;
  static constexpr int kKind = std::is_same_v<Handle, MPI_Comm> ? 0 : std::is_same_v<Handle, MPI_Win> ? 1 : 2;

  std::unordered_map<int, std::shared_ptr<const Keyval<Handle>>> keys_;
  int next_ = kFirst + kKind;
};

template <class Handle>
class Attributes {
 public:
  [[nodiscard]] bool get(int number, void*& value) const {
    for (const Entry& entry : entries_) {
      if (entry.key->number != number) continue;
      value = entry.value;
      return true;
    }
    return false;
  }

  /// Replaces an earlier value after its delete callback.  An error code.
  int set(Handle object, const std::shared_ptr<const Keyval<Handle>>& key, void* value) {
    for (Entry& entry : entries_) {
      if (entry.key != key) continue;
      if (const int error = key->destroy_value(object, entry.value); error != MPI_SUCCESS) return error;
      entry.value = value;
      return MPI_SUCCESS;
    }
    entries_.push_back({key, value});
    return MPI_SUCCESS;
  }

  /// An error code; removing what is not there is fine.
  int remove(Handle object, int number) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].key->number != number) continue;
      if (const int error = entries_[i].key->destroy_value(object, entries_[i].value); error != MPI_SUCCESS)
        return error;
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
      return MPI_SUCCESS;
    }
    return MPI_SUCCESS;
  }

  /// Removes all, the last one set first.  The first error code.
  int clear(Handle object) {
    int first = MPI_SUCCESS;
    while (!entries_.empty()) {
      const Entry entry = entries_.back();
      entries_.pop_back();
      const int error = entry.key->destroy_value(object, entry.value);
      if (first == MPI_SUCCESS) first = error;
    }
    return first;
  }

  /// Gives `to` what the copy callbacks of `from`'s attributes want it to have.  An error code.
  int copy_to(Handle from, Attributes& to) const {
    for (const Entry& entry : entries_) {
      void* value = nullptr;
      bool wanted = false;
      if (const int error = entry.key->copy_value(from, entry.value, value, wanted); error != MPI_SUCCESS) return error;
      if (wanted) to.entries_.push_back({entry.key, value});
    }
    return MPI_SUCCESS;
  }

 private:
  struct Entry {
    std::shared_ptr<const Keyval<Handle>> key;
    void* value;
  };
  std::vector<Entry> entries_;  // in the order in which they were set
};

}  // namespace mpi_shim::attribute
