// SPDX-License-Identifier: Apache-2.0
// Datatypes: commit, free, size, extent; MPI_Pack, _Unpack and _Pack_size.

#include "mpi_shim/api/forward.hpp"

namespace mpi_shim::api {
namespace {

template <class Integer>
int size_of(Call& call, MPI_Datatype datatype, Integer* size) {
  const datatype::Datatype* const type = call.any_type(datatype);
  return call.answer(size, "size", [&] { return narrowed<Integer>(type->size()); });
}

template <class Integer>
int bounds_of(Call& call, MPI_Datatype datatype, Integer* lb, Integer* extent, bool of_the_data) {
  const datatype::Datatype* const type = call.any_type(datatype);
  call.pointer(lb, "lb");
  call.pointer(extent, "extent");
  *lb = of_the_data ? type->true_lb() : type->lb();
  *extent = of_the_data ? type->true_extent() : type->extent();
  return MPI_SUCCESS;
}

template <class Count>
int pack(Call& call, const void* inbuf, Count incount, MPI_Datatype datatype, void* outbuf, Count outsize,
         Count* position, MPI_Comm comm) {
  call.comm(comm);
  const p2p::Buffer in = call.buffer(inbuf, incount, datatype);
  call.pointer(position, "position");
  if (in.bytes() != 0) call.pointer(outbuf, "outbuf");
  if (*position < 0 || *position > outsize || in.bytes() > static_cast<std::uint64_t>(outsize - *position)) {
    call.fail(MPI_ERR_TRUNCATE, "argument outbuf is too small for the packed data");
  }
  copy(in, p2p::Buffer::of_bytes(static_cast<std::byte*>(outbuf) + *position, in.bytes()));
  *position += static_cast<Count>(in.bytes());
  return MPI_SUCCESS;
}

template <class Count>
int unpack(Call& call, const void* inbuf, Count insize, Count* position, void* outbuf, Count outcount,
           MPI_Datatype datatype, MPI_Comm comm) {
  call.comm(comm);
  const p2p::Buffer out = call.buffer(outbuf, outcount, datatype);
  call.pointer(position, "position");
  if (out.bytes() != 0) call.pointer(inbuf, "inbuf");
  if (*position < 0 || *position > insize || out.bytes() > static_cast<std::uint64_t>(insize - *position)) {
    call.fail(MPI_ERR_TRUNCATE, "argument inbuf has too few packed bytes");
  }
  copy(p2p::Buffer::of_bytes(static_cast<const std::byte*>(inbuf) + *position, out.bytes()), out);
  *position += static_cast<Count>(out.bytes());
  return MPI_SUCCESS;
}

template <class Count>
int pack_size(Call& call, Count incount, MPI_Datatype datatype, MPI_Comm comm, Count* size) {
  call.comm(comm);
  const datatype::Datatype* const type = call.type(datatype);
  if (incount < 0) call.fail_count(incount, "incount");
  return call.answer(size, "size", [&] {
    const auto bytes = type->packed_size(incount);
    return bytes ? narrowed<Count>(*bytes) : Count{MPI_UNDEFINED};
  });
}

}  // namespace

OPAL_MPI_CALL(Type_commit, (Call & call, MPI_Datatype* datatype)) {
  datatype::Datatype* const type = call.any_type(call.at(datatype, "datatype"));
  type->commit();
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Type_free, (Call & call, MPI_Datatype* datatype)) {
  datatype::Datatype* const type = call.any_type(call.at(datatype, "datatype"));
  if (type->predefined_handle() != 0) call.fail(MPI_ERR_TYPE, "a predefined datatype cannot be freed");
  call.finish(type->attributes.clear(*datatype));
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

OPAL_MPI_FORWARD_BOTH(Pack, pack)
OPAL_MPI_FORWARD_BOTH(Unpack, unpack)
OPAL_MPI_FORWARD_BOTH(Pack_size, pack_size)

}  // namespace mpi_shim::api
