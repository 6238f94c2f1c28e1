// SPDX-License-Identifier: Apache-2.0
// Datatypes as objects: commit, free, sizes, extents, names; packing.
#include <cstring>

#include "mpi_shim/abi/forward.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/attribute/type_attributes.hpp"
#include "mpi_shim/datatype/construction/fortran_kinds.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::api::narrowed;
using mpi_shim::datatype::Datatype;
using mpi_shim::p2p::Buffer;

template <class Integer>
int size_of(const char* function, MPI_Datatype datatype, Integer* size) {
  Call call{function};
  const Datatype* const type = call.any_type(datatype);
  return call.answer(size, "size", [&] { return narrowed<Integer>(type->size()); });
}

template <class Integer>
int bounds_of(const char* function, MPI_Datatype datatype, Integer* lb, Integer* extent, bool of_the_data) {
  Call call{function};
  const Datatype* const type = call.any_type(datatype);
  call.pointer(lb, "lb");
  call.pointer(extent, "extent");
  if (call.failed()) return call.error();
  *lb = of_the_data ? type->true_lb() : type->lb();
  *extent = of_the_data ? type->true_extent() : type->extent();
  return MPI_SUCCESS;
}

template <class Count>
int pack(const char* function, const void* inbuf, Count incount, MPI_Datatype datatype, void* outbuf, Count outsize,
         Count* position, MPI_Comm comm) {
  Call call{function};
  call.comm(comm);
  const Buffer in = call.buffer(inbuf, incount, datatype);
  call.pointer(position, "position");
  if (in.bytes() != 0) call.pointer(outbuf, "outbuf");
  if (call.failed()) return call.error();
  if (*position < 0 || *position > outsize || in.bytes() > static_cast<std::uint64_t>(outsize - *position)) {
    return call.fail(MPI_ERR_TRUNCATE, "argument outbuf has no room for the packed data");
  }
  copy(in, Buffer::of_bytes(static_cast<std::byte*>(outbuf) + *position, in.bytes()));
  *position += static_cast<Count>(in.bytes());
  return MPI_SUCCESS;
}

template <class Count>
int unpack(const char* function, const void* inbuf, Count insize, Count* position, void* outbuf, Count outcount,
           MPI_Datatype datatype, MPI_Comm comm) {
  Call call{function};
  call.comm(comm);
  const Buffer out = call.buffer(outbuf, outcount, datatype);
  call.pointer(position, "position");
  if (out.bytes() != 0) call.pointer(inbuf, "inbuf");
  if (call.failed()) return call.error();
  if (*position < 0 || *position > insize || out.bytes() > static_cast<std::uint64_t>(insize - *position)) {
    return call.fail(MPI_ERR_TRUNCATE, "argument inbuf has fewer packed data");
  }
  copy(Buffer::of_bytes(static_cast<const std::byte*>(inbuf) + *position, out.bytes()), out);
  *position += static_cast<Count>(out.bytes());
  return MPI_SUCCESS;
}

template <class Count>
int pack_size(const char* function, Count incount, MPI_Datatype datatype, MPI_Comm comm, Count* size) {
  Call call{function};
  call.comm(comm);
  const Datatype* const type = call.type(datatype);
  if (incount < 0) call.fail_count(incount);
  return call.answer(size, "size", [&] {
    const auto bytes = type->packed_size(incount);
    return bytes ? narrowed<Count>(*bytes) : Count{MPI_UNDEFINED};
  });
}

}  // namespace

OPAL_MPI_FUNCTION(int, Type_commit, (MPI_Datatype * datatype)) {
  Call call{"MPI_Type_commit"};
  call.pointer(datatype, "datatype");
  if (call.failed()) return call.error();
  Datatype* const type = call.any_type(*datatype);
  if (call.failed()) return call.error();
  type->commit();
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Type_free, (MPI_Datatype * datatype)) {
  Call call{"MPI_Type_free"};
  call.pointer(datatype, "datatype");
  if (call.failed()) return call.error();
  Datatype* const type = call.any_type(*datatype);
  if (call.failed()) return call.error();
  if (mpi_shim::datatype::predefined_handle(*type) != 0)
    return call.fail(MPI_ERR_TYPE, "a predefined datatype cannot be freed");
  if (mpi_shim::Process* const process = mpi_shim::Process::current()) {  // types may be freed after MPI has ended
    if (const int error = process->type_attributes().forget(*datatype); error != MPI_SUCCESS) return call.finish(error);
  }
  type->retire();
  *datatype = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

OPAL_MPI_FORWARD_BOTH(Type_size, size_of)
OPAL_MPI_FORWARD(Type_size_x, size_of)
OPAL_MPI_FORWARD_BOTH(Type_get_extent, bounds_of, false)
OPAL_MPI_FORWARD(Type_get_extent_x, bounds_of, false)
OPAL_MPI_FORWARD_BOTH(Type_get_true_extent, bounds_of, true)
OPAL_MPI_FORWARD(Type_get_true_extent_x, bounds_of, true)

OPAL_MPI_FUNCTION(int, Type_set_name, (MPI_Datatype datatype, const char* type_name)) {
  Call call{"MPI_Type_set_name"};
  Datatype* const type = call.any_type(datatype);
  call.pointer(type_name, "type_name");
  if (call.failed()) return call.error();
  type->set_name({type_name, ::strnlen(type_name, MPI_MAX_OBJECT_NAME - 1)});
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Type_get_name, (MPI_Datatype datatype, char* type_name, int* resultlen)) {
  Call call{"MPI_Type_get_name"};
  const Datatype* const type = datatype == MPI_DATATYPE_NULL ? nullptr : call.any_type(datatype);
  return call.answer_name(type != nullptr ? type->name() : "MPI_DATATYPE_NULL", type_name, resultlen);
}

OPAL_MPI_FORWARD_BOTH(Pack, pack)
OPAL_MPI_FORWARD_BOTH(Unpack, unpack)
OPAL_MPI_FORWARD_BOTH(Pack_size, pack_size)
