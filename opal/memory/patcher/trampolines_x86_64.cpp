// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "opal/core/bytes.hpp"
#include "opal/memory/address_space/mapping_calls.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/memory/patcher/trampolines.hpp"

namespace opal::memory {
namespace {

constexpr std::size_t kMostBytes = 128;  // an upper bound of the size of one trampoline

/// A bit per system call number below kNumbers, 1 if it is watched, for the "bt" instruction.  Larger numbers are not
/// watched.
constexpr std::uint32_t kNumbers = 512;
const std::uint32_t* watched_bits() noexcept {
  static const std::array<std::uint32_t, kNumbers / 32> bits = [] {
    std::array<std::uint32_t, kNumbers / 32> made{};
    for (std::uint32_t number = 0; number < kNumbers; ++number) {
      if (is_watched(number)) made[number / 32] |= 1U << number % 32;
    }
    return made;
  }();
  return bits.data();
}

class Code {
 public:
  explicit Code(std::byte* at) noexcept : at_(at) {}
  [[nodiscard]] std::byte* here() const noexcept { return at_; }

  void bytes(std::initializer_list<unsigned> list) noexcept {
    for (const unsigned value : list) *at_++ = static_cast<std::byte>(value);
  }
  void copy(std::span<const std::byte> code) noexcept { at_ = std::copy(code.begin(), code.end(), at_); }
  void imm32(std::int32_t value) noexcept { put(value); }
  void load_r11(const void* address) noexcept {  // movabs $address,%r11; a system call need not preserve r11
    bytes({0x49, 0xbb});
    put(reinterpret_cast<std::uint64_t>(address));
  }
  void jump(const std::byte* target) noexcept {
    bytes({0xe9});
    put(static_cast<std::int32_t>(target - (at_ + sizeof(std::int32_t))));
  }
  /// A short forward jump; land() with the result sets its target to here().
  std::byte* branch(unsigned opcode) noexcept {
    bytes({opcode, 0});
    return at_;
  }
  void land(std::byte* after_branch) noexcept { after_branch[-1] = static_cast<std::byte>(at_ - after_branch); }

 private:
  template <class T>
  void put(T value) noexcept {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }
  std::byte* at_;
};

void write_trampoline(Code& code, const SyscallSite& site) noexcept {
  code.copy(std::span{site.moves}.first(site.moves_size));
  std::byte* not_watched[2] = {};
  if (site.number == SyscallSite::kAnyNumber) {
    code.bytes({0x3d});  // cmp $kNumbers-1,%eax; ja
    code.imm32(kNumbers - 1);
    not_watched[0] = code.branch(0x77);
    code.load_r11(watched_bits());
    code.bytes({0x41, 0x0f, 0xa3, 0x03});  // bt %eax,(%r11); jnc
    not_watched[1] = code.branch(0x73);
  } else {
    code.bytes({0xb8});  // mov $number,%eax
    code.imm32(site.number);
  }
  code.load_r11(&detail::interested);
  code.bytes({0x41, 0x83, 0x3b, 0x00});  // cmpl $0,(%r11); je
  std::byte* const no_listener = code.branch(0x74);
  code.bytes({0x48, 0x8d, 0x64, 0x24, 0x80});  // lea -128(%rsp),%rsp: keep the red zone of the interrupted function
  code.load_r11(reinterpret_cast<const void*>(&opal_memory_syscall_entry));
  code.bytes({0x41, 0xff, 0xd3});                                // call *%r11
  code.bytes({0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00});  // lea 128(%rsp),%rsp
  code.jump(site.next);
  // vfork and clone may take this path: the trampoline has nothing on the stack.
  for (std::byte* branch : not_watched) {
    if (branch != nullptr) code.land(branch);
  }
  code.land(no_listener);
  code.bytes({0x0f, 0x05});
  code.jump(site.next);
}

/// Maps `size` bytes within 1 GiB of `code`, so that 32-bit relative jumps reach from either to the other.
Result<std::byte*> memory_near(std::span<const std::span<std::byte>> code, std::size_t size) {
  constexpr std::uintptr_t kStep = 1U << 20;
  constexpr std::uintptr_t kReach = 1U << 30;
  std::uintptr_t low = UINTPTR_MAX;
  std::uintptr_t high = 0;
  for (const auto piece : code) {
    low = std::min(low, reinterpret_cast<std::uintptr_t>(piece.data()));
    high = std::max(high, reinterpret_cast<std::uintptr_t>(piece.data() + piece.size()));
  }
  low &= ~(kStep - 1);
  high = align_up(high, kStep);
  for (std::uintptr_t distance = kStep; distance < kReach; distance += kStep) {
    for (const std::uintptr_t hint : {low - distance, high + distance}) {
      void* const at = ::mmap(reinterpret_cast<void*>(hint), size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (at == reinterpret_cast<void*>(hint)) return static_cast<std::byte*>(at);
      if (at != MAP_FAILED) ::munmap(at, size);  // kernels before 4.17 use the address as a hint
    }
  }
  return Error{Errc::no_space, 0, "patcher: no free addresses near the C library", size};
}

}  // namespace

Result<std::vector<Patch>> make_trampolines(const CodeSegments& object, std::span<const SyscallSite> sites) {
  const std::size_t size = align_up(sites.size() * kMostBytes, 4096);
  OPAL_TRY_ASSIGN(std::byte* const memory, memory_near(object, size));
  std::vector<Patch> patches;
  Code code{memory};
  for (const SyscallSite& site : sites) {
    Patch patch{site.start, {}};
    const auto distance = static_cast<std::int32_t>(code.here() - (site.start + SyscallSite::kReplaced));
    patch.bytes[0] = std::byte{0xe9};
    std::memcpy(&patch.bytes[1], &distance, sizeof distance);
    patches.push_back(patch);
    write_trampoline(code, site);
  }
  if (::mprotect(memory, size, PROT_READ | PROT_EXEC) != 0) {
    const int refused = errno;
    ::munmap(memory, size);
    return Error{Errc::permission, refused, "patcher: mprotect(executable trampolines)", size};
  }
  return patches;
}

}  // namespace opal::memory
