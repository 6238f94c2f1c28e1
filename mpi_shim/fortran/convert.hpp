// SPDX-License-Identifier: Apache-2.0
// mpi_shim/fortran/convert.hpp — converts the arguments of a Fortran call to those of the C function.  Fortran passes
// arguments by reference, handles as integers, and strings padded with blanks with their lengths after the last
// argument.  The generated entry points make these objects as temporaries in the call of the C function.  Their
// destructors, at the end of the expression, write the outputs back to the Fortran variables.
// LOGICAL needs no conversion: gfortran's .true. is 1, and gfortran takes every value except 0 as true.
// Threads: values of one call; the shared state is constant.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "mpi_shim/include/mpi.h"
#include "opal/core/export.hpp"

using MPI_Fint = int;

// The COMMON blocks of mpif.h: each address stands for the special value in the name of the block.
extern "C" {
OPAL_EXPORT extern MPI_Fint mpi_fortran_bottom_;
OPAL_EXPORT extern MPI_Fint mpi_fortran_in_place_;
OPAL_EXPORT extern MPI_Fint mpi_fortran_buffer_automatic_;
OPAL_EXPORT extern MPI_Fint mpi_fortran_unweighted_;
OPAL_EXPORT extern MPI_Fint mpi_fortran_weights_empty_;
OPAL_EXPORT extern MPI_Fint mpi_fortran_status_ignore_[MPI_F_STATUS_SIZE];
OPAL_EXPORT extern MPI_Fint mpi_fortran_statuses_ignore_[MPI_F_STATUS_SIZE];
}

namespace mpi_shim::fortran {

/// A choice buffer, with Fortran's MPI_BOTTOM and MPI_IN_PLACE replaced by the values of C.
inline void* choice(void* buffer) noexcept {
  if (buffer == &mpi_fortran_bottom_) return MPI_BOTTOM;
  return buffer == &mpi_fortran_in_place_ ? MPI_IN_PLACE : buffer;
}

/// The buffer of MPI_Buffer_attach, with Fortran's MPI_BUFFER_AUTOMATIC replaced by the value of C.
inline void* attached(void* buffer) noexcept {
  return buffer == &mpi_fortran_buffer_automatic_ ? MPI_BUFFER_AUTOMATIC : buffer;
}

inline int* weights_of(MPI_Fint* given) noexcept {
  if (given == &mpi_fortran_unweighted_) return MPI_UNWEIGHTED;
  return given == &mpi_fortran_weights_empty_ ? MPI_WEIGHTS_EMPTY : given;
}

/// One status or an array.  A Fortran status has the layout of the C status, so it is not copied.
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

/// A handle that the C function creates.  The Fortran variable is unchanged if the function stores no handle.
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

 protected:
  Handle handle_ = nullptr;

 private:
  MPI_Fint* integer_;
};

/// A handle that the C function reads and may change.
template <class Handle>
class InOut : public Out<Handle> {
 public:
  explicit InOut(MPI_Fint* integer) : Out<Handle>(integer) { this->handle_ = handle<Handle>(*integer); }
};

/// An array of handles that the C function only reads.
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

/// An array of requests that the C function may change.
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

/// An output index: counted from 0 in C and from 1 in Fortran.  MPI_UNDEFINED is not changed.
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

/// An output array of indices, with the number of them in `count`.
class Indices {
 public:
  Indices(MPI_Fint* indices, MPI_Fint* count) : indices_(indices), count_(count) { *count = 0; }
  ~Indices() {
    for (int i = 0; i < *count_; ++i) ++indices_[i];  // no round for MPI_UNDEFINED, which is negative
  }
  Indices(const Indices&) = delete;
  Indices& operator=(const Indices&) = delete;
  operator int*() { return indices_; }  // NOLINT(google-explicit-constructor): an argument

 private:
  MPI_Fint* indices_;
  MPI_Fint* count_;
};

/// An input string, without trailing blanks.
class StringIn {
 public:
  StringIn(const char* text, std::size_t length) {
    while (length > 0 && text[length - 1] == ' ') --length;
    text_.assign(text, length);
  }
  operator const char*() const { return text_.c_str(); }  // NOLINT(google-explicit-constructor): an argument

 protected:
  std::string text_;
};

/// A key or value of an info object: without leading blanks, too.
struct InfoIn : StringIn {
  InfoIn(const char* text, std::size_t length) : StringIn(text, length) {
    text_.erase(0, text_.find_first_not_of(' '));
  }
};

/// An output string, padded with blanks or truncated to the length of the Fortran variable.
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

/// An output address that Fortran cannot use: that of the buffer of MPI_Buffer_detach.
struct Ignored {
  void* address = nullptr;
  operator void*() { return &address; }  // NOLINT(google-explicit-constructor): an argument
};

// --- Attributes.  C gets the address of a value that Fortran has set (MPI 4.0, 19.3.7), so each is in a cell.
// Fortran gets an address that C has set as the value.  One cell serves MPI_Aint and, as its first bytes, MPI_Fint.

/// A new cell with this value.  It stays until the process ends if the attribute's key is one of C, since the delete
/// callback of a Fortran key frees it.
void* new_cell(MPI_Aint value);
/// The value in a cell; of any other address the address itself.
MPI_Aint value_at(void* attribute);
/// Frees a cell; no effect on any other address.
void free_cell(void* attribute);

/// The number of blocks that a rank sends, and receives, in MPI_Alltoallw.
int peers_of(MPI_Comm comm);
/// The number of blocks that a rank sends (`outward`) or receives in MPI_Neighbor_alltoallw.
int neighbours_of(MPI_Comm comm, bool outward);

}  // namespace mpi_shim::fortran
