// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/wire.hpp — the messages between smcuda modules of one host, and their handles of GPU memory.
// The receiver checks sizes, ranges and devices before use, since a broken peer can send anything.
#pragma once
#include <cstdint>
#include <type_traits>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/tag.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"

namespace opal::btl::smcuda::wire {

inline constexpr Tag kRequest = kBtlTags.first + 0x30;
inline constexpr Tag kAskFile = kBtlTags.first + 0x32;
inline constexpr Tag kAnswer = kBtlTags.first + 0x30 + kAnswerBit;
static_assert(!is_answer(kRequest) && is_answer(kAnswer) && !is_answer(kAskFile) && kBtlTags.contains(kAnswer));

/// kRequest: asks whether both processes can map each other's GPU memory.  The peer sends an Answer.
struct Request {
  gpu::DeviceId device;  ///< of the sender's GPU buffer
};
static_assert(sizeof(Request) == 16 && std::has_unique_object_representations_v<Request>, "wire layout v1");

/// kAnswer.
struct Answer {
  std::uint64_t capability;  ///< a Capability; any other value counts as no
};
static_assert(sizeof(Answer) == 8 && std::has_unique_object_representations_v<Answer>, "wire layout v1");

/// kAskFile: requests a descriptor of the GPU allocation that contains `region`.  The answer comes over the socket
/// (sm::Module::give_file()).
struct AskFile {
  SoftwareHandle region;  ///< a registration of the receiver
};
static_assert(sizeof(AskFile) == 32 && std::has_unique_object_representations_v<AskFile>, "wire layout v1");

/// The memory handle of GPU memory.  The registration table decides whether an access is allowed.
struct GpuHandle {
  SoftwareHandle software;   ///< the slot in the Context's registration table
  gpu::MemoryHandle memory;  ///< the allocation that contains the memory, for a process that can map it

  /// The handle without `memory`, for transports and tables that do not map GPU memory.
  [[nodiscard]] MemoryHandle table_part() const noexcept { return *MemoryHandle::from_bytes(bytes_of(software)); }
};
static_assert(sizeof(GpuHandle) == 144 && sizeof(GpuHandle) <= MemoryHandle::kMaxSize, "wire layout v1");

/// True when `handle` is a GpuHandle, by its size; sets `read`.
inline bool read(const MemoryHandle& handle, GpuHandle& read) noexcept {
  return handle.bytes().size() == sizeof read && read_object(handle.bytes(), read);
}

}  // namespace opal::btl::smcuda::wire
