// SPDX-License-Identifier: Apache-2.0
// The C interface to the sends.
#include <algorithm>

#include "opal/capi/internal.hpp"

using namespace opal::capi;
using opal::ByteSpan;
using opal::Error;
using opal::Post;

namespace {

/// opal_send and opal_send_or_queue differ only in the Endpoint's function.
template <auto Send>
opal_status_t send_with(opal_endpoint_t* to, std::uint16_t tag, const void* header, std::size_t header_size,
                        const void* payload, std::size_t payload_size) noexcept {
  if (to == nullptr || !opal::kUserTags.contains(tag) || is_missing(header, header_size) ||
      is_missing(payload, payload_size) || ((header_size | payload_size) >> 62) != 0) [[unlikely]] {
    return misuse(
        "opal_send, opal_send_or_queue: an endpoint, a tag from OPAL_TAG_USER_FIRST to OPAL_TAG_USER_LAST and the "
        "bytes are needed");
  }
  opal::am::Endpoint& peer = endpoint(to);
  const Post answer = (peer.*Send)(tag, bytes(header, header_size), bytes(payload, payload_size));
  if (answer == Post::done) [[likely]]
    return OPAL_DONE;
  return to_status(answer, answer == Post::failed ? peer.error() : Error{});
}

}  // namespace

extern "C" {

opal_status_t opal_send(opal_endpoint_t* to, uint16_t tag, const void* header, size_t header_size, const void* payload,
                        size_t payload_size) noexcept {
  return send_with<&opal::am::Endpoint::send_inline>(to, tag, header, header_size, payload, payload_size);
}

opal_status_t opal_send_or_queue(opal_endpoint_t* to, uint16_t tag, const void* header, size_t header_size,
                                 const void* payload, size_t payload_size) noexcept {
  return send_with<&opal::am::Endpoint::send_or_queue>(to, tag, header, header_size, payload, payload_size);
}

opal_status_t opal_send_iov(opal_endpoint_t* to, uint16_t tag, const opal_iov_t* parts, size_t count) noexcept {
  constexpr std::size_t kMost = OPAL_IOV_MAX;
  if (to == nullptr || !opal::kUserTags.contains(tag) || (parts == nullptr && count != 0) || count > kMost ||
      std::any_of(parts, parts + count, [](const opal_iov_t& part) { return is_missing(part.data, part.size); })) {
    return misuse(
        "opal_send_iov: an endpoint, a tag from OPAL_TAG_USER_FIRST to OPAL_TAG_USER_LAST and at most OPAL_IOV_MAX "
        "parts are needed");
  }
  ByteSpan spans[kMost];
  std::transform(parts, parts + count, spans, [](const opal_iov_t& part) { return bytes(part.data, part.size); });
  const Post answer = endpoint(to).send_iov(tag, {spans, count});
  return to_status(answer, answer == Post::failed ? endpoint(to).error() : Error{});
}

opal_status_t opal_send_any(opal_endpoint_t* to, uint16_t tag, const void* header, size_t header_size,
                            const void* payload, size_t payload_size, opal_completion_t* completion) noexcept {
  if (to == nullptr || !opal::kUserTags.contains(tag) || is_missing(header, header_size) ||
      is_missing(payload, payload_size) || ((header_size | payload_size) >> 62) != 0) {
    return misuse(
        completion,
        "opal_send_any: an endpoint, a tag from OPAL_TAG_USER_FIRST to OPAL_TAG_USER_LAST and the bytes are needed");
  }
  return post(endpoint(to).context(), completion, [&](opal::Completion& end) {
    return endpoint(to).send(tag, bytes(header, header_size), bytes(payload, payload_size), end);
  });
}

}  // extern "C"
