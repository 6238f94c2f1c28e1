// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/wire.hpp — what smcuda modules say to each other, and their handles of GPU memory.  Between processes
// of one host; all of it is a peer's: kinds, ranges and devices are checked before use.
#pragma once
#include <cstdint>
#include <type_traits>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/tag.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"

namespace opal::btl::smcuda::wire {

inline constexpr Tag kRequest = kBtlTags.first + 0x30;
inline constexpr Tag kFreed = kBtlTags.first + 0x31;
inline constexpr Tag kAskFile = kBtlTags.first + 0x32;
inline constexpr Tag kAnswer = kBtlTags.first + 0x30 + kAnswerBit;
static_assert(!is_answer(kRequest) && is_answer(kAnswer) && !is_answer(kFreed) && !is_answer(kAskFile) &&
              kBtlTags.contains(kAnswer));

/// May this process map GPU memory of yours, and you of mine?
struct Request {
  gpu::DeviceId device;  ///< of the sender's GPU buffer
};
static_assert(sizeof(Request) == 16 && std::has_unique_object_representations_v<Request>, "wire layout v1");

enum class Verdict : std::uint64_t { yes = 1, no = 2, not_ready = 3 };

struct Answer {
  std::uint64_t verdict;
};
static_assert(sizeof(Answer) == 8 && std::has_unique_object_representations_v<Answer>, "wire layout v1");

/// A descriptor, please, of the allocation in which this registration of yours lies.  It comes over the socket.
struct AskFile {
  SoftwareHandle region;
};
static_assert(sizeof(AskFile) == 32 && std::has_unique_object_representations_v<AskFile>, "wire layout v1");

/// [base, +size) was an allocation of the sender's that is none any more.
struct Freed {
  std::uint64_t base;
  std::uint64_t size;
};
static_assert(sizeof(Freed) == 16 && std::has_unique_object_representations_v<Freed>, "wire layout v1");

/// What register_memory() makes of GPU memory: the slot in the Context's table, which says what may be touched as long
/// as it may, and the allocation around it, for a process that can map that.
struct GpuHandle {
  SoftwareHandle software;
  gpu::MemoryHandle memory;

  [[nodiscard]] MemoryHandle table_part() const noexcept { return *MemoryHandle::from_bytes(bytes_of(software)); }
};
static_assert(sizeof(GpuHandle) == 144 && sizeof(GpuHandle) <= MemoryHandle::kMaxSize, "wire layout v1");

/// Whether the handle is one of GPU memory; other sizes are for their decoder.
inline bool read(const MemoryHandle& handle, GpuHandle& read) noexcept {
  return handle.bytes().size() == sizeof read && read_object(handle.bytes(), read);
}

}  // namespace opal::btl::smcuda::wire
