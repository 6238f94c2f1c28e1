// SPDX-License-Identifier: Apache-2.0
// MPI_Pack, _Unpack and _Pack_size, and their forms for the representation "external32".
#include "mpi_shim/datatype/external32.hpp"

#include <string_view>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/coll/on_host.hpp"

namespace mpi_shim::api {
namespace {

constexpr const char* kIsTooSmall = " is too small for the packed data";
constexpr const char* kHasTooFewBytes = " has too few packed bytes";

/// Checks that `bytes` bytes follow *position in `packed`, which has `size` bytes.  `is_short`: what is said else.
template <class Count>
void check_packed(Call& call, const void* packed, const char* argument, const char* is_short, Count size,
                  const Count* position, std::uint64_t bytes) {
  if (bytes != 0) call.pointer(packed, argument);
  if (*position < 0 || *position > size || bytes > static_cast<std::uint64_t>(size - *position)) {
    call.fail(MPI_ERR_TRUNCATE, std::string{"argument "} + argument + is_short);
  }
}

template <class Count>
int pack(Call& call, const void* inbuf, Count incount, MPI_Datatype datatype, void* outbuf, Count outsize,
         Count* position, MPI_Comm comm) {
  call.comm(comm);
  const p2p::Buffer in = call.buffer(inbuf, incount, datatype);
  check_packed(call, outbuf, "outbuf", kIsTooSmall, outsize, position, in.bytes());
  copy(in, p2p::Buffer::of_bytes(static_cast<std::byte*>(outbuf) + *position, in.bytes()));
  *position += static_cast<Count>(in.bytes());
  return MPI_SUCCESS;
}

template <class Count>
int unpack(Call& call, const void* inbuf, Count insize, Count* position, void* outbuf, Count outcount,
           MPI_Datatype datatype, MPI_Comm comm) {
  call.comm(comm);
  const p2p::Buffer out = call.buffer(outbuf, outcount, datatype);
  check_packed(call, inbuf, "inbuf", kHasTooFewBytes, insize, position, out.bytes());
  copy(p2p::Buffer::of_bytes(static_cast<const std::byte*>(inbuf) + *position, out.bytes()), out);
  *position += static_cast<Count>(out.bytes());
  return MPI_SUCCESS;
}

template <class Count>
int pack_size(Call& call, Count incount, MPI_Datatype datatype, MPI_Comm comm, Count* size) {
  call.comm(comm);
  const datatype::Datatype* const type = call.type(datatype);
  if (incount < 0) call.fail_count(incount, "incount");
  const auto bytes = type->packed_size(incount);
  return call.answer(size, bytes ? narrowed<Count>(*bytes) : Count{MPI_UNDEFINED});
}

/// The checked arguments that the three functions for external32 have in common.
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
int pack_external(Call& call, const char* datarep, const void* inbuf, MPI_Count incount, MPI_Datatype datatype,
                  void* outbuf, Size outsize, Size* position) {
  const External it{call, datarep, incount, datatype};
  const p2p::Buffer in = call.buffer(inbuf, incount, datatype);
  const auto bytes = static_cast<std::size_t>(it.bytes);
  check_packed(call, outbuf, "outbuf", kIsTooSmall, outsize, position, bytes);
  coll::OnHost from{in, coll::OnHost::Use::read};
  coll::OnHost to{p2p::Buffer::of_bytes(static_cast<std::byte*>(outbuf) + *position, bytes), coll::OnHost::Use::write};
  pack_external32(*it.type, from.buffer().base(), incount, {to.buffer().base(), bytes});
  *position += it.bytes;
  return MPI_SUCCESS;
}

template <class Size>
int unpack_external(Call& call, const char* datarep, const void* inbuf, Size insize, Size* position, void* outbuf,
                    MPI_Count outcount, MPI_Datatype datatype) {
  const External it{call, datarep, outcount, datatype};
  const p2p::Buffer out = call.buffer(outbuf, outcount, datatype);
  const auto bytes = static_cast<std::size_t>(it.bytes);
  check_packed(call, inbuf, "inbuf", kHasTooFewBytes, insize, position, bytes);
  coll::OnHost from{p2p::Buffer::of_bytes(static_cast<const std::byte*>(inbuf) + *position, bytes),
                    coll::OnHost::Use::read};
  coll::OnHost to{out, coll::OnHost::Use::update};
  unpack_external32(*it.type, to.buffer().base(), outcount, {from.buffer().base(), bytes});
  *position += it.bytes;
  return MPI_SUCCESS;
}

template <class Size>
int external_size(Call& call, const char* datarep, MPI_Count incount, MPI_Datatype datatype, Size* size) {
  return call.answer(size, External{call, datarep, incount, datatype}.bytes);
}

}  // namespace

OPAL_MPI_FORWARD_BOTH(Pack, pack)
OPAL_MPI_FORWARD_BOTH(Unpack, unpack)
OPAL_MPI_FORWARD_BOTH(Pack_size, pack_size)
OPAL_MPI_FORWARD_BOTH(Pack_external, pack_external)
OPAL_MPI_FORWARD_BOTH(Unpack_external, unpack_external)
OPAL_MPI_FORWARD_BOTH(Pack_external_size, external_size)

}  // namespace mpi_shim::api
