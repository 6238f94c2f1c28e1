// SPDX-License-Identifier: Apache-2.0
// mpi_shim/attribute/type_attributes.hpp — the attributes of datatypes: beside the types, which know nothing of MPI,
// and only for those that have some.  Owned by the Process.  Threads: safe from any thread; callbacks run without a
// lock.
#pragma once
#include <mutex>
#include <unordered_map>

#include "mpi_shim/attribute/attributes.hpp"

namespace mpi_shim::attribute {

class TypeAttributes {
 public:
  [[nodiscard]] Keyvals<MPI_Datatype>& keys() noexcept { return keys_; }

  /// Those of a type, none yet if it had none; valid until forget().
  Attributes<MPI_Datatype>& of(MPI_Datatype type) {
    const std::lock_guard guard{mutex_};
    return attributes_[type];
  }
  /// Null when the type has none.
  Attributes<MPI_Datatype>* find(MPI_Datatype type) {
    const std::lock_guard guard{mutex_};
    const auto found = attributes_.find(type);
    return found == attributes_.end() ? nullptr : &found->second;
  }

  /// The end of a type: the delete callbacks of all.  An error code; with one, the type keeps what is left.
  int forget(MPI_Datatype type) {
    Attributes<MPI_Datatype>* const attributes = find(type);
    if (attributes == nullptr) return MPI_SUCCESS;
    if (const int error = attributes->clear(type); error != MPI_SUCCESS) return error;
    const std::lock_guard guard{mutex_};
    attributes_.erase(type);
    return MPI_SUCCESS;
  }

 private:
  std::mutex mutex_;
  Keyvals<MPI_Datatype> keys_;
  std::unordered_map<MPI_Datatype, Attributes<MPI_Datatype>> attributes_;
};

}  // namespace mpi_shim::attribute
