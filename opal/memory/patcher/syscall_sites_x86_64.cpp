// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "opal/memory/address_space/mapping_calls.hpp"
#include "opal/memory/patcher/syscall_sites.hpp"

namespace opal::memory {
namespace {

constexpr std::byte operator""_b(unsigned long long value) noexcept { return static_cast<std::byte>(value); }

constexpr std::array kSyscall{0x0f_b, 0x05_b};
constexpr std::byte kMovEax = 0xb8_b;
// mov 0x8(%rsp),%r9: the instruction before "syscall" in libc's syscall()
constexpr std::array kLoadR9{0x4c_b, 0x8b_b, 0x4c_b, 0x24_b, 0x08_b};
constexpr std::size_t kMoveSize = 3;  // REX.W mov between registers
constexpr std::size_t kMostMoves = 4;

/// True for a 64-bit move between registers whose target is not rax.  It is position-independent.
bool is_register_move(const std::byte* at) noexcept {
  const auto rex = std::to_integer<unsigned>(at[0]);
  const auto opcode = std::to_integer<unsigned>(at[1]);
  const auto modrm = std::to_integer<unsigned>(at[2]);
  if ((rex & 0xf8U) != 0x48U || (opcode != 0x89U && opcode != 0x8bU) || modrm < 0xc0U) return false;
  const unsigned field = opcode == 0x89U ? (modrm & 7U) | (rex & 1U) << 3 : (modrm >> 3 & 7U) | (rex & 4U) << 1;
  return field != 0;
}

/// Sets `site` to the site that ends with the "syscall" at `call`; false if the code before it is not recognised.
bool site_before(const std::byte* begin, std::byte* call, SyscallSite& site) noexcept {
  site = {};
  site.next = call + kSyscall.size();
  for (std::size_t moves = 0; moves <= kMostMoves; ++moves) {
    const std::size_t back = SyscallSite::kReplaced + moves * kMoveSize;
    if (static_cast<std::size_t>(call - begin) < back) return false;
    std::byte* const start = call - back;
    std::int32_t number = 0;
    std::memcpy(&number, start + 1, sizeof number);
    if (*start == kMovEax && is_watched(number)) {
      site.start = start;
      site.number = number;
      site.moves_size = moves * kMoveSize;
      std::memcpy(site.moves.data(), start + SyscallSite::kReplaced, site.moves_size);
      return true;
    }
    if (moves == 0 && std::equal(kLoadR9.begin(), kLoadR9.end(), start)) {
      site.start = start;
      site.number = SyscallSite::kAnyNumber;
      std::copy(kLoadR9.begin(), kLoadR9.end(), site.moves.begin());
      site.moves_size = kLoadR9.size();
      return true;
    }
    if (static_cast<std::size_t>(call - begin) < (moves + 1) * kMoveSize ||
        !is_register_move(call - (moves + 1) * kMoveSize)) {
      return false;
    }
  }
  return false;
}

constexpr std::string_view kObjects[] = {"libc.so", "ld-linux", "libpthread.so", "libucm.so"};

/// Adds the base address of the object, library or program, that defines `symbol`, an entry point of a sanitizer.
void add_base_of(const char* symbol, std::vector<const void*>& bases) {
  Dl_info info{};
  void* const address = ::dlsym(RTLD_DEFAULT, symbol);
  if (address != nullptr && ::dladdr(address, &info) != 0) bases.push_back(info.dli_fbase);
}

struct Search {
  std::vector<const void*> sanitizers;
  std::vector<CodeSegments> found;
};

int visit(dl_phdr_info* info, std::size_t /*size*/, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  const std::string_view file = path.substr(path.rfind('/') + 1);
  const bool system = std::any_of(std::begin(kObjects), std::end(kObjects),
                                  [&](std::string_view name) { return file.starts_with(name); });
  const bool sanitizer = std::any_of(search.sanitizers.begin(), search.sanitizers.end(), [&](const void* base) {
    return std::any_of(info->dlpi_phdr, info->dlpi_phdr + info->dlpi_phnum, [&](const ElfW(Phdr) & header) {
      return header.p_type == PT_LOAD && header.p_offset == 0 &&
             reinterpret_cast<const void*>(info->dlpi_addr + header.p_vaddr) == base;
    });
  });
  if (!system && !sanitizer) return 0;
  CodeSegments object;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0 || (header.p_flags & PF_R) == 0) continue;
    object.emplace_back(reinterpret_cast<std::byte*>(info->dlpi_addr + header.p_vaddr), header.p_memsz);
  }
  search.found.push_back(std::move(object));
  return 0;
}

}  // namespace

void find_syscall_sites(std::span<std::byte> code, std::vector<SyscallSite>& sites) {
  for (auto from = code.begin();;) {
    const auto found = std::search(from, code.end(), kSyscall.begin(), kSyscall.end());
    if (found == code.end()) return;
    SyscallSite site;
    if (site_before(code.data(), &*found, site)) sites.push_back(site);
    from = found + 1;
  }
}

std::vector<CodeSegments> objects_to_patch() {
  Search search;
  for (const char* symbol : {"__asan_init", "__tsan_init", "__lsan_enable", "__hwasan_init", "__msan_init"}) {
    add_base_of(symbol, search.sanitizers);
  }
  ::dl_iterate_phdr(visit, &search);
  return std::move(search.found);
}

}  // namespace opal::memory
