// SPDX-License-Identifier: Apache-2.0
// What two processes of the double exchange over a stream socket.
// The initiator connects and sends requests; the target answers on the same connection, in the order of the requests.
//   request  = Request  | `length` bytes, unless it is a get
//   response = Response | `body` bytes: the values of a get or of a fetching operation
// A put or atomic without a requested acknowledgement has no response.
// Both sides run the same build on one host, so the layout of the structures is the format.
#pragma once

#include <portals4.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace opal::test::portals4::wire {

inline constexpr std::uint32_t kRequestMagic = 0x50345251;
inline constexpr std::uint32_t kResponseMagic = 0x50345253;
inline constexpr std::uint64_t kMaxLength = std::uint64_t{1} << 40;        ///< of any request; a target rejects more
inline constexpr std::uint64_t kMaxAtomicLength = std::uint64_t{1} << 16;  ///< of an atomic one: the target buffers it

enum class Kind : std::uint8_t { put, get, atomic, fetch_atomic, swap };

struct Request {
  std::uint32_t magic = kRequestMagic;
  Kind kind = Kind::put;
  std::uint8_t acknowledge = 0;  ///< 1: a put or atomic has a response
  std::uint8_t operation = 0;    ///< ptl_op_t
  std::uint8_t datatype = 0;     ///< ptl_datatype_t
  std::uint64_t id = 0;          ///< the response carries it
  std::uint64_t length = 0;
  std::uint64_t match_bits = 0;
  std::uint64_t remote_offset = 0;
  std::uint64_t hdr_data = 0;
  std::uint64_t operand = 0;  ///< of PTL_CSWAP and PTL_MSWAP, in the first bytes
  std::uint32_t pt_index = 0;
  std::uint32_t unused = 0;
};
static_assert(sizeof(Request) == 64);
static_assert(std::has_unique_object_representations_v<Request>, "no padding: all bytes are sent");

struct Response {
  std::uint32_t magic = kResponseMagic;
  std::uint32_t fail = PTL_NI_OK;  ///< ptl_ni_fail_t
  std::uint64_t id = 0;
  std::uint64_t mlength = 0;
  std::uint64_t remote_offset = 0;  ///< where the operation took place: differs from the request's with MANAGE_LOCAL
  std::uint64_t body = 0;
};
static_assert(sizeof(Response) == 40);
static_assert(std::has_unique_object_representations_v<Response>, "no padding: all bytes are sent");

inline bool is_atomic(Kind kind) { return kind != Kind::put && kind != Kind::get; }
inline bool is_fetching(Kind kind) { return kind == Kind::fetch_atomic || kind == Kind::swap; }
inline bool has_response(const Request& request) {
  return request.kind == Kind::get || is_fetching(request.kind) || request.acknowledge != 0;
}
/// Bytes that follow the request.
inline std::uint64_t body_of(const Request& request) { return request.kind == Kind::get ? 0 : request.length; }

}  // namespace opal::test::portals4::wire
