// SPDX-License-Identifier: Apache-2.0
// Streams and events of the driver double, as the program sees them.
#include "tests/gpu/double/machine.hpp"

using namespace opal::cuda_double;

CUresult cuStreamCreate(CUstream* out, unsigned int flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (call.context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const Id id = call->new_id();
  Stream& stream = call->streams[id];
  stream.id = id;
  stream.context = call.context_id();
  stream.non_blocking = flags == CU_STREAM_NON_BLOCKING;
  *out = handle_of<CUstream>(id);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->streams.find(id_of(handle));
  if (found == call->streams.end()) call.misuse("a destroyed stream");
  call->finish(found->second);  // the real one lets them end in the background
  call->streams.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Stream* const stream = call->stream_of(handle, call.context_id());
  if (stream == nullptr) call.misuse("a destroyed stream");
  call->query();
  return stream->operations.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream handle) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Stream* const stream = call->stream_of(handle, call.context_id());
  if (stream == nullptr) call.misuse("a destroyed stream");
  call->finish(*stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int /*flags*/) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Stream* const stream = call->stream_of(handle, call.context_id());
  const auto found = call->events.find(id_of(event));
  if (stream == nullptr || found == call->events.end()) return CUDA_ERROR_INVALID_HANDLE;
  Operation operation;
  operation.kind = Operation::Kind::wait;
  operation.event = found->first;
  operation.recording = found->second.recorded;
  call->submit(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* out, unsigned int /*flags*/) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (call.context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Id id = call->new_id();
  call->events[id] = {call.context_id(), 0, 0};
  *out = handle_of<CUevent>(id);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->events.find(id_of(event));
  if (found == call->events.end()) call.misuse("a destroyed event");
  Stream* const stream = call->stream_of(handle, call.context_id());
  if (stream == nullptr || stream->context != found->second.context) return CUDA_ERROR_INVALID_HANDLE;
  Operation operation;
  operation.kind = Operation::Kind::record;
  operation.event = found->first;
  operation.recording = ++found->second.recorded;
  call->submit(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->events.find(id_of(event));
  if (found == call->events.end()) call.misuse("a destroyed event");
  call->query();
  return found->second.done == found->second.recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (!call->events.contains(id_of(event))) call.misuse("a destroyed event");
  call->finish_all();
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (call->events.erase(id_of(event)) == 0) call.misuse("a destroyed event");
  return CUDA_SUCCESS;
}
