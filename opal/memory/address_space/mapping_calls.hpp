// SPDX-License-Identifier: Apache-2.0
// opal/memory/address_space/mapping_calls.hpp — the system calls that change what is mapped: what each one does to
// memory, said around the call itself.  The patcher sends them here instead of to the kernel. Threads: any; runs inside
// malloc, free and the dynamic loader, so it allocates nothing, keeps errno, and asks the kernel without libc.
#pragma once
#include <array>
#include <cstddef>

#include "opal/core/export.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory {

struct SystemCall {
  long number = 0;
  std::array<long, 6> arguments{};
};

/// The pages that a call names by its arguments.
inline Range range_of(long address, long length) noexcept {
  return Range::pages(static_cast<std::uintptr_t>(address), static_cast<std::uintptr_t>(length));
}

/// True for the calls that perform() handles.
[[nodiscard]] bool is_watched(long number) noexcept;

/// Carries the call out and returns the kernel's answer (a value or -errno).  Reports released memory before the kernel
/// takes it: afterwards another thread could already have something new at the same place.
OPAL_EXPORT long perform(const SystemCall& call) noexcept;

/// The same without any report.
long carry_out(const SystemCall& call) noexcept;

}  // namespace opal::memory
