// SPDX-License-Identifier: Apache-2.0
// A program under a memory monitor that makes memory come and go in every way a program can, also in the allocator it
// finds, and dies with a message as soon as pages it knew went away unreported.
//   memory_traffic LIBRARY (alone | HOOKS-before | HOOKS-after), HOOKS being
//   hooks: those of LIBRARY; ucm: UCX's; ompi: Open MPI's
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "opal/core/config/store.hpp"
#include "opal/core/system/raw_syscall.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/memory/events/monitor.hpp"

namespace {

using opal::memory::Range;

constexpr std::size_t kPage = 4096;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::_Exit(1);
}

/// The pages this program keeps an eye on: fixed room, because events come from inside the allocator.
class Watch final : public opal::memory::Listener {
 public:
  void released(Range range) noexcept override {
    for (Page& page : pages_) {
      if (range.begin <= page.address && page.address < range.end) page.reported = true;
    }
  }
  void mapped(Range range) noexcept override { last_mapped = range; }
  /// Marks the page that holds `address` and returns its number.
  std::size_t add(const void* address) {
    const auto page = reinterpret_cast<std::uintptr_t>(address) & ~(kPage - 1);
    pages_[next_] = {page, false};
    return next_++ % kMost;
  }
  void clear() { next_ = 0, std::memset(pages_, 0, sizeof pages_); }
  [[nodiscard]] bool reported(std::size_t page) const { return pages_[page].reported; }
  [[nodiscard]] std::uintptr_t address(std::size_t page) const { return pages_[page].address; }

  Range last_mapped;

 private:
  static constexpr std::size_t kMost = 64;
  struct Page {
    std::uintptr_t address;
    bool reported;
  };
  Page pages_[kMost] = {};
  std::size_t next_ = 0;
};

Watch watch;

bool resident(std::uintptr_t page) {
  unsigned char here = 0;
  return ::mincore(reinterpret_cast<void*>(page), kPage, &here) == 0 && (here & 1U) != 0;
}

std::byte* map(std::size_t size) {
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail("mmap");
  std::memset(at, 1, size);
  return static_cast<std::byte*>(at);
}

template <class Way>
void must_report(const char* what, const void* address, Way way) {
  watch.clear();
  const std::size_t page = watch.add(address);
  way();
  if (!watch.reported(page)) fail(std::string{what} + " went unseen");
}

/// Where the kernel lets a process advise itself that way (Linux 6.13).
void process_madvise_of_oneself() {
  constexpr long kPidfdOpen = 434;
  constexpr long kProcessMadvise = 440;
  std::byte* const at = map(8 * kPage);
  const long self = ::syscall(kPidfdOpen, ::getpid(), 0);
  const iovec pieces[] = {{at + kPage, kPage}, {at + 4 * kPage, 2 * kPage}};
  watch.clear();
  const std::size_t first = watch.add(at + kPage);
  const std::size_t last = watch.add(at + 5 * kPage);
  const std::size_t between = watch.add(at + 2 * kPage);
  const long done = ::syscall(kProcessMadvise, self, pieces, 2L, static_cast<long>(MADV_DONTNEED), 0L);
  if (done > 0 && !(watch.reported(first) && watch.reported(last))) fail("process_madvise went unseen");
  if (watch.reported(between)) fail("process_madvise: reported more than it empties");
  ::close(static_cast<int>(self));
  ::munmap(at, 8 * kPage);
}

/// What was unmapped by an instruction that is not patched is found when something else is mapped there.
void memory_that_left_unseen() {
  std::byte* const at = map(4 * kPage);
  opal::raw_syscall(SYS_munmap, reinterpret_cast<long>(at), static_cast<long>(4 * kPage));
  void* const again = ::mmap(at, 4 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto place = reinterpret_cast<std::uintptr_t>(again);
  if (watch.last_mapped != Range{place, place + 4 * kPage}) fail("what mmap() has mapped was not told");
  ::munmap(again, 4 * kPage);
}

void every_way(std::string_view mode) {
  std::byte* a = map(16 * kPage);
  must_report("munmap of a part", a + 5 * kPage, [&] { ::munmap(a + 4 * kPage, 4 * kPage); });
  must_report("madvise(DONTNEED)", a, [&] { ::madvise(a, kPage, MADV_DONTNEED); });
  must_report("madvise(FREE)", a + kPage, [&] { ::madvise(a + kPage, kPage, MADV_FREE); });
  must_report("mmap(MAP_FIXED)", a,
              [&] { ::mmap(a, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); });
  must_report("shrinking mremap", a + 3 * kPage, [&] { (void)::mremap(a, 4 * kPage, kPage, 0); });
  std::byte* b = map(4 * kPage);
  std::byte* c = map(4 * kPage);
  must_report("moving mremap: the old place", b,
              [&] { (void)::mremap(b, 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, c); });
  std::byte* d = map(4 * kPage);
  watch.clear();
  const std::size_t replaced = watch.add(c + kPage);
  void* const moved = ::mremap(d, 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, c);
  // UCX's hook drops mremap's fifth argument: under it the memory goes elsewhere.
  if (moved == c && !watch.reported(replaced)) fail("moving mremap: the new place went unseen");
  std::byte* e = map(4 * kPage);
  must_report("munmap through syscall()", e, [&] { ::syscall(SYS_munmap, e, 4 * kPage); });
  const int segment = ::shmget(IPC_PRIVATE, 4 * kPage, IPC_CREAT | 0600);
  if (segment >= 0) {
    auto* const s = static_cast<std::byte*>(::shmat(segment, nullptr, 0));
    ::shmctl(segment, IPC_RMID, nullptr);
    must_report("shmdt", s + 3 * kPage, [&] { ::shmdt(s); });
  }
  process_madvise_of_oneself();
  memory_that_left_unseen();
  if (mode == "ucm-after") return;  // see main()
  auto* const top = static_cast<std::byte*>(::sbrk(8 * kPage));
  if (top != reinterpret_cast<std::byte*>(-1) && ::sbrk(0) == top + 8 * kPage) {
    must_report("sbrk downwards", top + 4 * kPage, [&] { ::sbrk(-static_cast<intptr_t>(7 * kPage)); });
  }
}

/// The data of a library that is unloaded go through the loader's own munmap.
void unloading(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const data = library != nullptr ? ::dlsym(library, "other_hooks_data") : nullptr;
  if (data == nullptr) fail("dlopen of the library to unload");
  must_report("dlclose", data, [&] { ::dlclose(library); });
}

/// Whatever the allocator does with blocks: pages that are gone were reported.
void allocator_traffic(unsigned seed, bool check) {
  std::mt19937_64 random{seed};
  std::vector<std::pair<std::byte*, std::size_t>> blocks(24);
  for (int step = 0; step < 1000; ++step) {
    auto& [block, size] = blocks[random() % blocks.size()];
    const std::size_t wanted = std::size_t{1} << (random() % 11 + 12);  // 4 KiB to 4 MiB
    if (check) watch.clear();
    const bool known = block != nullptr;
    const std::size_t page = known && check ? watch.add(block + size / 2) : 0;
    if (!known) {
      block = static_cast<std::byte*>(std::malloc(wanted));
    } else if (random() % 3 == 0) {
      block = static_cast<std::byte*>(std::realloc(block, wanted));
    } else {
      std::free(block);
      block = nullptr;
    }
    if (known && check && !resident(watch.address(page)) && !watch.reported(page)) fail("free or realloc went unseen");
    size = wanted;
    if (block != nullptr) std::memset(block, step, size);
  }
  for (auto& [block, size] : blocks) std::free(block);
}

void load_hooks(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW);
  auto* const install =
      library != nullptr ? reinterpret_cast<int (*)()>(::dlsym(library, "other_hooks_install")) : nullptr;
  if (install == nullptr || install() != 0) fail("other hooks do not load");
}

unsigned their_events = 0;  // what UCX's or Open MPI's hooks have seen

/// The program ends as skipped (77) where there is no such library.
void* load(const char* name, int how) {
  void* const library = ::dlopen(name, RTLD_NOW | how);
  if (library != nullptr) return library;
  std::fprintf(stderr, "%s\n", ::dlerror());
  std::_Exit(77);
}

template <class Function>
Function* function_of(void* library, const char* name) {
  auto* const function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr) fail(name);
  return function;
}

void load_ucm() {
  ::dlopen("libucs.so.0", RTLD_NOW | RTLD_GLOBAL);  // libucm refers to it and does not say so
  void* const library = load("libucm.so.0", RTLD_LOCAL);
  using Callback = void (*)(int, void*, void*);
  constexpr int kVmUnmapped = 1 << 17;
  const Callback count = [](int, void*, void*) { ++their_events; };
  if (function_of<int(int, int, Callback, void*)>(library, "ucm_set_event_handler")(kVmUnmapped, 1000, count,
                                                                                    nullptr) != 0) {
    fail("ucm_set_event_handler");
  }
}

/// Open MPI's memory patcher, as its registration caches start it.
void load_ompi() {
  void* const library = load("libopen-pal.so.40", RTLD_GLOBAL);  // its plug-ins look for their symbols
  if (function_of<int(int*, char***)>(library, "opal_init")(nullptr, nullptr) != 0) fail("opal_init");
  void* const framework = ::dlsym(library, "opal_memory_base_framework");
  if (framework == nullptr || function_of<int(void*, int)>(library, "mca_base_framework_open")(framework, 0) != 0) {
    fail("mca_base_framework_open");
  }
  constexpr int kSeesFreeAndMunmap = 3;
  if (function_of<int()>(library, "opal_mem_hooks_support_level")() != kSeesFreeAndMunmap) fail("its patcher is off");
  using Callback = void (*)(void*, std::size_t, void*, bool);
  const Callback count = [](void*, std::size_t, void*, bool) { ++their_events; };
  if (function_of<int(Callback, void*)>(library, "opal_mem_hooks_register_release")(count, nullptr) != 0) {
    fail("opal_mem_hooks_register_release");
  }
}

void load_others(std::string_view hooks, const char* library) {
  if (hooks == "hooks") load_hooks(library);
  if (hooks == "ucm") load_ucm();
  if (hooks == "ompi") load_ompi();
}

/// The other library still sees what it saw before we came.
void other_hooks_work(std::string_view mode, const char* library) {
  if ((mode.starts_with("ucm") || mode.starts_with("ompi")) && their_events == 0) fail("it sees nothing any more");
  if (!mode.starts_with("hooks")) return;
  void* const hooks = ::dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (reinterpret_cast<unsigned (*)()>(::dlsym(hooks, "other_hooks_seen"))() == 0) fail("the other hooks see nothing");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("usage: memory_traffic LIBRARY MODE");
  const char* const library = argv[1];
  const std::string_view mode = argv[2];
  const std::string_view hooks = mode.substr(0, mode.find('-'));
  if (mode.ends_with("-before")) load_others(hooks, library);
  const auto config = opal::config::Store::from_environment().load(opal::memory::kGroup);
  if (!config) fail(to_string(config.error()));
  const opal::memory::Choice& choice = opal::memory::start_monitor(*config);
  if (choice.monitor == nullptr) fail("no monitor: " + choice.reasons);
  if (mode.ends_with("-after")) load_others(hooks, library);
  if (!opal::memory::add_listener(watch)) fail("add_listener");
  // UCX's brk is a system call of its own, in a library that was not there when the monitor looked.
  if (mode == "ucm-after") ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  every_way(mode);
  if (!mode.starts_with("hooks")) unloading(library);
  allocator_traffic(1, true);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back([i] { allocator_traffic(i, false); });
  for (std::thread& thread : threads) thread.join();
  if (const pid_t child = ::fork(); child == 0) {
    every_way(mode);
    std::_Exit(0);
  } else {
    int status = -1;
    if (::waitpid(child, &status, 0) != child || status != 0) fail("in a forked child");
  }
  other_hooks_work(mode, library);
  std::printf("monitor %s: everything was reported\n", choice.monitor);
  return 0;
}
