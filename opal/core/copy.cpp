// SPDX-License-Identifier: Apache-2.0
#include "opal/core/copy.hpp"

#include <unistd.h>

#include <algorithm>

#include "opal/core/sanitizer.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace opal {
namespace {

/// By how many bytes the offset of `to` in its page is above that of `from`, modulo the page size.
constexpr std::uint64_t page_offset_ahead(std::uint64_t to, std::uint64_t from) noexcept {
  constexpr std::uint64_t kPage = 4096;
  return (to - from) % kPage;
}

void copy_by_libc(void* to, const void* from, std::size_t size) noexcept { std::memmove(to, from, size); }

#if defined(__x86_64__)

/// Copies of at least this many bytes bypass the caches: source and target together exceed the last-level cache.
std::atomic<std::size_t> streaming_size{SIZE_MAX};

template <bool kStreaming>
[[gnu::always_inline, gnu::target("avx2")]] inline void store(std::byte* at, __m256i vector) noexcept {
  if constexpr (kStreaming) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(at), vector);
  } else {
    _mm256_store_si256(reinterpret_cast<__m256i*>(at), vector);
  }
}

[[gnu::always_inline, gnu::target("avx2")]] inline __m256i load(const std::byte* at) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

bool overlap(const std::byte* to, const std::byte* from, std::size_t size) noexcept {
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(to - from, from - to)) < size;
}

/// Copies `size` >= 64 bytes in ascending order.  All stores but the first and the last are aligned, since a store that
/// crosses a cache line costs two.
template <bool kStreaming>
[[gnu::always_inline, gnu::target("avx2")]] inline void copy_vectors(std::byte* to, const std::byte* from,
                                                                     std::size_t size) noexcept {
  constexpr std::size_t kVector = sizeof(__m256i);
  const __m256i first = load(from);
  const __m256i last = load(from + size - kVector);
  std::byte* const first_at = to;
  std::byte* const last_at = to + size - kVector;
  const std::size_t to_boundary = kVector - reinterpret_cast<std::uintptr_t>(to) % kVector;
  to += to_boundary;
  from += to_boundary;
  for (; to + 4 * kVector <= last_at; to += 4 * kVector, from += 4 * kVector) {
    const __m256i a = load(from);
    const __m256i b = load(from + kVector);
    const __m256i c = load(from + 2 * kVector);
    const __m256i d = load(from + 3 * kVector);
    store<kStreaming>(to, a);
    store<kStreaming>(to + kVector, b);
    store<kStreaming>(to + 2 * kVector, c);
    store<kStreaming>(to + 3 * kVector, d);
  }
  for (; to < last_at; to += kVector, from += kVector) store<kStreaming>(to, load(from));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(last_at), last);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(first_at), first);
}

/// memmove(), and the loop for the pairs of addresses for which `rep movsb` is slow.
[[gnu::target("avx2")]] void copy_on_zen3(void* to, const void* from, std::size_t size) noexcept {
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  const std::size_t ahead =
      page_offset_ahead(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from));
  if (ahead == 0 || ahead >= kCacheLine || overlap(target, source, size)) [[likely]] {
    std::memmove(to, from, size);
  } else if (size < streaming_size.load(std::memory_order_relaxed)) {
    copy_vectors<false>(target, source, size);
  } else {
    copy_vectors<true>(target, source, size);
    _mm_sfence();  // streaming stores are not ordered with a later store of a flag that announces the data
  }
}

/// Whether `rep movsb` is slow for some pairs of addresses: Zen 3 and 4 (family 0x19) with FSRM, not Zen 5 (measured).
bool has_slow_rep_movsb() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0 || b != signature_AMD_ebx || c != signature_AMD_ecx) return false;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (a >> 8U & 0xfU) + (a >> 20U & 0xffU) != 0x19) return false;
  constexpr unsigned kFsrm = 1U << 4U;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kFsrm) != 0;
}

/// The copy for this processor.  Under a sanitizer memmove(): it checks both ranges at once, not each vector.
detail::LongCopy choose() noexcept {
  if (OPAL_ADDRESS_SANITIZER || OPAL_THREAD_SANITIZER || !has_slow_rep_movsb()) return copy_by_libc;
  constexpr long kUnknownCache = 32L << 20;
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  streaming_size.store(static_cast<std::size_t>(cache > 0 ? cache : kUnknownCache) / 2, std::memory_order_relaxed);
  return copy_on_zen3;
}

#else

// No other architecture's memmove() is known to depend on the addresses.
bool has_slow_rep_movsb() noexcept { return false; }
detail::LongCopy choose() noexcept { return copy_by_libc; }

#endif

void choose_and_copy(void* to, const void* from, std::size_t size) noexcept {
  detail::long_copy.store(choose(), std::memory_order_relaxed);
  copy_host_memory(to, from, size);
}

}  // namespace

std::atomic<detail::LongCopy> detail::long_copy{choose_and_copy};

bool kernel_copies_slowly(std::uint64_t to, std::uint64_t from) noexcept {
  static const bool affected = has_slow_rep_movsb();
  const std::uint64_t ahead = page_offset_ahead(to, from);
  return affected && ahead != 0 && ahead < 16;
}

}  // namespace opal
