// SPDX-License-Identifier: Apache-2.0
// mpi_shim/fortran/convert.hpp — arguments as a Fortran program passes them (by reference; handles as integers; strings
// padded with blanks, their lengths behind the last argument), as what the C functions take.  The generated entry
// points hold these as temporaries of the call: what has to be written back is, at the end of the expression. LOGICAL
// is passed on as it is: gfortran's .true. is 1, and it takes any other value but 0 for true as well. Threads: values
// of one call; the only shared state is constant.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "mpi_shim/include/mpi.h"
#include "opal/core/export.hpp"

using MPI_Fint = int;

// The COMMON blocks of mpif.h: their addresses are the special values that they are named for.
extern "C" {
OPAL_EXPORT extern MPI_Fint mpi_fortran_bottom_;
OPAL_EXPORT extern MPI_Fint mpi_fortran_in_place_;
OPAL_EXPORT extern MPI_Fint mpi_fortran_unweighted_;
OPAL_EXPORT extern MPI_Fint mpi_fortran_weights_empty_;
OPAL_EXPORT extern MPI_Fint mpi_fortran_status_ignore_[MPI_F_STATUS_SIZE];
OPAL_EXPORT extern MPI_Fint mpi_fortran_statuses_ignore_[MPI_F_STATUS_SIZE];
}

namespace mpi_shim::fortran {

inline void* choice(void* buffer) noexcept {
  if (buffer == &mpi_fortran_bottom_) return MPI_BOTTOM;
  return buffer == &mpi_fortran_in_place_ ? MPI_IN_PLACE : buffer;
}

inline int* weights_of(MPI_Fint* given) noexcept {
  if (given == &mpi_fortran_unweighted_) return MPI_UNWEIGHTED;
  return given == &mpi_fortran_weights_empty_ ? MPI_WEIGHTS_EMPTY : given;
}

/// One status or an array of them: MPI_F_STATUS_SIZE integers each, as in C.
inline MPI_Status* statuses(MPI_Fint* given) noexcept {
  const bool ignored = given == mpi_fortran_status_ignore_ || given == mpi_fortran_statuses_ignore_;
  return ignored ? MPI_STATUS_IGNORE : reinterpret_cast<MPI_Status*>(given);
}

#define OPAL_MPI_FORTRAN_HANDLE(name, type)                                      \
  inline MPI_Fint to_integer(type handle) { return MPI_##name##_toint(handle); } \
  inline void from_integer(MPI_Fint integer, type& handle) { handle = MPI_##name##_fromint(integer); }
OPAL_MPI_FORTRAN_HANDLE(Comm, MPI_Comm)
OPAL_MPI_FORTRAN_HANDLE(Errhandler, MPI_Errhandler)
OPAL_MPI_FORTRAN_HANDLE(Group, MPI_Group)
OPAL_MPI_FORTRAN_HANDLE(Info, MPI_Info)
OPAL_MPI_FORTRAN_HANDLE(Message, MPI_Message)
OPAL_MPI_FORTRAN_HANDLE(Op, MPI_Op)
OPAL_MPI_FORTRAN_HANDLE(Request, MPI_Request)
OPAL_MPI_FORTRAN_HANDLE(Type, MPI_Datatype)
OPAL_MPI_FORTRAN_HANDLE(Win, MPI_Win)
#undef OPAL_MPI_FORTRAN_HANDLE

template <class Handle>
Handle handle(MPI_Fint integer) {
  Handle result;
  from_integer(integer, result);
  return result;
}

/// A handle that the function makes; left alone when it makes none.
template <class Handle>
class Out {
 public:
  explicit Out(MPI_Fint* integer) : integer_(integer) {}
  ~Out() {
    if (handle_ != nullptr) *integer_ = to_integer(handle_);
  }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;
  operator Handle*() { return &handle_; }  // NOLINT(google-explicit-constructor): an argument

 private:
  MPI_Fint* integer_;
  Handle handle_ = nullptr;
};

/// A handle that the function uses and may change.
template <class Handle>
class InOut {
 public:
  explicit InOut(MPI_Fint* integer) : integer_(integer), handle_(handle<Handle>(*integer)) {}
  ~InOut() { *integer_ = to_integer(handle_); }
  InOut(const InOut&) = delete;
  InOut& operator=(const InOut&) = delete;
  operator Handle*() { return &handle_; }  // NOLINT(google-explicit-constructor): an argument

 private:
  MPI_Fint* integer_;
  Handle handle_;
};

/// Several handles that the function only reads.
template <class Handle>
class InArray {
 public:
  InArray(const MPI_Fint* integers, int count) {
    for (int i = 0; i < count; ++i) handles_.push_back(handle<Handle>(integers[i]));
  }
  operator const Handle*() const { return handles_.data(); }  // NOLINT(google-explicit-constructor): an argument

 protected:
  std::vector<Handle> handles_;
};

/// Several requests that the function may change.
class Requests : private InArray<MPI_Request> {
 public:
  Requests(MPI_Fint* integers, int count) : InArray(integers, count), integers_(integers) {}
  ~Requests() {
    for (std::size_t i = 0; i < handles_.size(); ++i) integers_[i] = to_integer(handles_[i]);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  operator MPI_Request*() { return handles_.data(); }  // NOLINT(google-explicit-constructor): an argument

 private:
  MPI_Fint* integers_;
};

/// Which of several, from 1 in Fortran.
class Index {
 public:
  explicit Index(MPI_Fint* index) : index_(index) {}
  ~Index() { *index_ = value_ == MPI_UNDEFINED ? value_ : value_ + 1; }
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;
  operator int*() { return &value_; }  // NOLINT(google-explicit-constructor): an argument

 private:
  MPI_Fint* index_;
  int value_ = MPI_UNDEFINED;
};

class Indices {
 public:
  Indices(MPI_Fint* indices, MPI_Fint* count) : indices_(indices), count_(count) { *count = 0; }
  ~Indices() {
    for (int i = 0; i < *count_; ++i) ++indices_[i];  // not at all for MPI_UNDEFINED, which is negative
  }
  Indices(const Indices&) = delete;
  Indices& operator=(const Indices&) = delete;
  operator int*() { return indices_; }  // NOLINT(google-explicit-constructor): an argument

 private:
  MPI_Fint* indices_;
  MPI_Fint* count_;
};

/// Without the blanks around it.
class StringIn {
 public:
  StringIn(const char* text, std::size_t length) {
    while (length > 0 && text[length - 1] == ' ') --length;
    while (length > 0 && *text == ' ') ++text, --length;
    text_.assign(text, length);
  }
  operator const char*() const { return text_.c_str(); }  // NOLINT(google-explicit-constructor): an argument

 private:
  std::string text_;
};

/// Padded with blanks, cut off where it is longer than the variable.
class StringOut {
 public:
  StringOut(char* text, std::size_t length) : text_(text), length_(length), made_(MPI_MAX_LIBRARY_VERSION_STRING + 1) {}
  ~StringOut() {
    const std::size_t made = std::strlen(made_.data());
    const std::size_t copied = made < length_ ? made : length_;
    std::memcpy(text_, made_.data(), copied);
    std::memset(text_ + copied, ' ', length_ - copied);
  }
  StringOut(const StringOut&) = delete;
  StringOut& operator=(const StringOut&) = delete;
  operator char*() { return made_.data(); }  // NOLINT(google-explicit-constructor): an argument

 private:
  char* text_;
  std::size_t length_;
  std::vector<char> made_;
};

/// The address of the buffer that MPI_Buffer_detach gives back, with which Fortran has nothing to do.
struct Ignored {
  void* address = nullptr;
  operator void*() { return &address; }  // NOLINT(google-explicit-constructor): an argument
};

/// How many blocks a rank sends and receives in MPI_Alltoallw.
int peers_of(MPI_Comm comm);
/// And in MPI_Neighbor_alltoallw.
int neighbours_of(MPI_Comm comm, bool outward);

}  // namespace mpi_shim::fortran
