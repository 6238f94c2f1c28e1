// SPDX-License-Identifier: Apache-2.0
// MPI_Pack_external, _Unpack_external and _Pack_external_size.
#include "mpi_shim/datatype/external32.hpp"

#include <string_view>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/coll/on_host.hpp"

namespace mpi_shim::api {
namespace {

/// The checked arguments that the three functions have in common.
struct External {
  const datatype::Datatype* type = nullptr;
  std::int64_t bytes = 0;

  External(Call& call, const char* datarep, MPI_Count count, MPI_Datatype datatype) {
    call.pointer(datarep, "datarep");
    if (std::string_view{datarep} != "external32") {
      call.fail(MPI_ERR_ARG, "argument datarep is not \"external32\", the only predefined representation");
    }
    type = call.type(datatype);
    if (count < 0) call.fail_count(count);
    const auto size = external32_size(*type, count);
    if (!size) call.fail(MPI_ERR_COUNT, "argument count gives 2^63 packed bytes or more");
    bytes = *size;
  }
};

template <class Size>
int pack(Call& call, const char* datarep, const void* inbuf, MPI_Count incount, MPI_Datatype datatype, void* outbuf,
         Size outsize, Size* position) {
  const External it{call, datarep, incount, datatype};
  const p2p::Buffer in = call.buffer(inbuf, incount, datatype);
  call.pointer(position, "position");
  if (it.bytes != 0) call.pointer(outbuf, "outbuf");
  if (*position < 0 || *position > outsize || it.bytes > outsize - *position) {
    call.fail(MPI_ERR_TRUNCATE, "argument outbuf is too small for the packed data");
  }
  const auto bytes = static_cast<std::size_t>(it.bytes);
  coll::OnHost from{in, coll::OnHost::Use::read};
  coll::OnHost to{p2p::Buffer::of_bytes(static_cast<std::byte*>(outbuf) + *position, bytes), coll::OnHost::Use::write};
  pack_external32(*it.type, from.buffer().base(), incount, {to.buffer().base(), bytes});
  *position += it.bytes;
  return MPI_SUCCESS;
}

template <class Size>
int unpack(Call& call, const char* datarep, const void* inbuf, Size insize, Size* position, void* outbuf,
           MPI_Count outcount, MPI_Datatype datatype) {
  const External it{call, datarep, outcount, datatype};
  const p2p::Buffer out = call.buffer(outbuf, outcount, datatype);
  call.pointer(position, "position");
  if (it.bytes != 0) call.pointer(inbuf, "inbuf");
  if (*position < 0 || *position > insize || it.bytes > insize - *position) {
    call.fail(MPI_ERR_TRUNCATE, "argument inbuf has too few packed bytes");
  }
  const auto bytes = static_cast<std::size_t>(it.bytes);
  coll::OnHost from{p2p::Buffer::of_bytes(static_cast<const std::byte*>(inbuf) + *position, bytes),
                    coll::OnHost::Use::read};
  coll::OnHost to{out, coll::OnHost::Use::update};
  unpack_external32(*it.type, to.buffer().base(), outcount, {from.buffer().base(), bytes});
  *position += it.bytes;
  return MPI_SUCCESS;
}

template <class Size>
int size_of(Call& call, const char* datarep, MPI_Count incount, MPI_Datatype datatype, Size* size) {
  const External it{call, datarep, incount, datatype};
  return call.answer(size, "size", [&] { return it.bytes; });
}

}  // namespace

OPAL_MPI_FORWARD_BOTH(Pack_external, pack)
OPAL_MPI_FORWARD_BOTH(Unpack_external, unpack)
OPAL_MPI_FORWARD_BOTH(Pack_external_size, size_of)

}  // namespace mpi_shim::api
