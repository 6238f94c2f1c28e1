// SPDX-License-Identifier: Apache-2.0
// The functions of an Endpoint that handle GPU buffers and queued messages, off the fast path of endpoint.hpp.
#include "opal/am/state.hpp"

namespace opal::am {

Post Endpoint::send_with_care(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  if (has_pending()) return Post::again;
  btl::Module& module = route_->module();
  if (payload.empty() || gpu::is_host(payload.data())) return module.send_inline(*route_, tag, header, payload);
  if (route_->dead()) return Post::failed;
  route_->set_error({});
  Completion never;  // does not run: the message is copied into the transport, so no post returns queued
  btl::Fragment fragment = module.prepare_src(*route_, header, payload, never);
  if (!fragment) return route_->error().code == Errc{} ? Post::again : Post::failed;
  return module.send(fragment, tag);
}

Post Endpoint::transfer_gpu(btl::OperationKind kind, std::byte* here, std::uint64_t remote_address,
                            const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  btl::Module& module = route_->module();
  if (module.attributes().gpu_memory) {
    const Post post = module.transfer(kind, *route_, here, nullptr, remote_address, remote, size, completion);
    if (post != Post::failed || completion.error.code != Errc::not_supported) return post;
  }
  return context_.state_->staged->transfer(kind, *route_, here, remote_address, remote, size, completion);
}

}  // namespace opal::am
