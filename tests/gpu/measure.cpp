// SPDX-License-Identifier: Apache-2.0
// What GPU memory costs here, as a Markdown page on stdout: classifying pointers, opening another process's memory for
// the first time and again, and how fast such memory is got over smcuda, with IPC and staged, beside a copy within one
// process.  usage: gpu_measure [--quick]     exit status 77: no usable GPU, and stderr says why
#include "tests/gpu/cuda_test_api.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/core/clock.hpp"
#include "opal/gpu/copies/copier.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/rcache/rgpusm.hpp"
#include "tests/gpu/double/control.hpp"
#include "tests/harness/child.hpp"

namespace opal::gpu {
namespace {

constexpr int kNothingToMeasure = 77;
constexpr std::size_t kSmallest = std::size_t{64} << 10;

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

/// The primary context of device 0, current; null with the reason on stderr.
CUcontext first_context() {
  CUcontext context = nullptr;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, 0);
  if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "gpu_measure: no usable GPU: CUDA error %d\n", static_cast<int>(result));
    return nullptr;
  }
  memory::start_monitor({});
  const Status& status = start({});
  if (status.loaded) return context;
  std::fprintf(stderr, "gpu_measure: no usable GPU: %s\n", status.why.c_str());
  return nullptr;
}

/// Median over rounds of the time that one call of `body` takes, in ns.
template <class Body>
double median_ns(int rounds, int calls, Body body) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t begin = now_ns();
    for (int i = 0; i < calls; ++i) body();
    times.push_back(static_cast<double>(now_ns() - begin) / calls);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

volatile bool seen = false;

void print_pointers(int calls) {
  static int on_host = 1;
  CUdeviceptr device = 0;
  if (cuMemAlloc(&device, 4096) != CUDA_SUCCESS) return;
  std::printf("\n## What is this pointer?\n\n| pointer | ns |\n|---|---|\n");
  std::printf("| host, page known | %.1f |\n", median_ns(9, calls, [] { seen = is_host(&on_host); }));
  std::printf("| host, page not known | %.1f |\n", median_ns(9, calls, [] {
                host_pages.released(memory::Range::pages(reinterpret_cast<std::uintptr_t>(&on_host), 1));
                seen = is_host(&on_host);
              }));
  std::printf("| device | %.1f |\n", median_ns(9, calls, [&] { seen = is_host(pointer(device)); }));
  std::printf("| device, all about it (`inspect`) | %.1f |\n",
              median_ns(9, calls, [&] { seen = inspect(pointer(device)).has_value(); }));
  cuMemFree(device);
}

/// One end of a conversation over smcuda.
struct End {
  am::Endpoint* peer = nullptr;
  std::unique_ptr<am::Context> context;
  bool told = false;

  static constexpr Tag kDone = kUserTags.first;

  bool open(const test::Channel& other, bool ipc) {
    config::Store store;
    store.set("am_transports", "smcuda");
    store.set("btl_smcuda_ipc", ipc ? "true" : "false");
    auto opened = am::Context::open(store);
    if (!opened) return false;
    context = std::move(*opened);
    if (!context->set_handler(kDone, btl::bind<&End::on_done>(*this, "done"))) return false;
    other.send(context->address());
    const auto address = other.receive();
    auto connected = context->connect(address);
    if (!connected) return false;
    peer = *connected;
    return true;
  }
  void tell() { (void)peer->send_or_queue(kDone, {}, {}); }
  void await() {
    context->wait_until([this] { return told; }, std::chrono::milliseconds{-1});
    told = false;
  }

 private:
  void on_done(btl::Delivery&) noexcept { told = true; }
};

/// The process whose memory is read.
int owner(const test::Channel& other, std::size_t size) {
  if (first_context() == nullptr) return 1;
  CUdeviceptr buffer = 0;
  if (cuMemAlloc(&buffer, size) != CUDA_SUCCESS) return 1;
  const auto handle = export_memory(*inspect(pointer(buffer)));
  if (!handle) return 1;
  other.send(bytes_of(*handle));
  for (const bool ipc : {true, false}) {
    End end;
    if (!end.open(other, ipc)) return 1;
    const auto region = end.context->register_memory(pointer(buffer), size, Rights::remote_read);
    if (!region) return 1;
    other.send(region->key());
    end.await();
    end.tell();
    end.context->progress();
    if (!other.expect("closed")) return 1;
  }
  return 0;
}

void print_handles(const MemoryHandle& handle, CUcontext context, int calls) {
  rcache::Rgpusm kept{context, {}};
  rcache::Rgpusm not_kept{context, {.leave_pinned = false}};
  std::printf("\n## A handle of another process's memory (the seeds name 90 to 100 us)\n\n| | us |\n|---|---|\n");
  const std::uint64_t begin = now_ns();
  const bool first = not_kept.get(handle).has_value();
  std::printf("| opened and closed, the very first | %.2f%s |\n", static_cast<double>(now_ns() - begin) / 1e3,
              first ? "" : " (failed)");
  std::printf("| opened and closed each time (`rcache_grdma_leave_pinned` off) | %.2f |\n",
              median_ns(9, std::max(calls / 100, 1), [&] { seen = not_kept.get(handle).has_value(); }) / 1e3);
  seen = kept.get(handle).has_value();
  std::printf("| kept | %.3f |\n", median_ns(9, calls, [&] { seen = kept.get(handle).has_value(); }) / 1e3);
}

std::vector<std::size_t> sizes_up_to(std::size_t size) {
  std::vector<std::size_t> sizes;
  for (std::size_t next = kSmallest; next <= size; next *= 8) sizes.push_back(next);
  return sizes;
}

/// Bytes per ns, which is GB/s, of copies within this process, started one after another and waited for together.
double copy_rate(CUcontext context, void* to, const void* from, std::size_t size, int copies) {
  Copier copier{{}};
  const auto run = [&] {
    for (int i = 0; i < copies; ++i) {
      if (!copier.copy(context, 0, to, from, size, {[](void*, const Result<void>&) noexcept {}, nullptr})) return;
    }
    while (copier.pending() > 0) copier.progress();
  };
  run();
  return static_cast<double>(size) * copies / median_ns(5, 1, run);
}

/// The same of gets from the peer; 0 where one failed.
double get_rate(End& end, void* to, std::uint64_t address, const opal::MemoryHandle& handle, std::size_t size,
                int copies) {
  struct Counted : Completion {
    int* left = nullptr;
    bool* all_right = nullptr;
  };
  bool all_right = true;
  const auto run = [&] {
    int left = copies;
    std::vector<Counted> gets(static_cast<std::size_t>(copies));
    for (Counted& get : gets) {
      get.left = &left;
      get.all_right = &all_right;
      get.fn = [](Completion& self) noexcept {
        auto& ended = static_cast<Counted&>(self);
        --*ended.left;
        *ended.all_right = *ended.all_right && ended.ok();
      };
      Post post = Post::again;
      while ((post = end.peer->get(to, address, handle, size, get)) == Post::again) end.context->progress();
      if (post != Post::queued) --left;
      if (post == Post::failed) all_right = false;
    }
    while (left > 0) end.context->progress();
  };
  run();
  const double rate = static_cast<double>(size) * copies / median_ns(5, 1, run);
  return all_right ? rate : 0;
}

/// Gets of every size with IPC, or staged through host memory.
std::vector<double> get_rates(const test::Channel& other, bool ipc, void* to, std::uint64_t address, std::size_t most) {
  std::vector<double> rates;
  {
    End end;
    if (!end.open(other, ipc)) return rates;
    const auto key = other.receive();
    const auto handle = end.peer->unpack_key(key);
    if (!handle) return rates;
    while (end.peer->send_inline(End::kDone + 1, {}, {static_cast<const std::byte*>(to), 8}) == Post::again) {
    }
    const Deadline timeout = Deadline::after(std::chrono::seconds{5});
    while (ipc && !end.peer->gpu_direct() && !timeout.expired()) end.context->progress();
    if (ipc && !end.peer->gpu_direct()) std::fprintf(stderr, "gpu_measure: the peer's memory cannot be mapped\n");
    for (const std::size_t size : sizes_up_to(most)) {
      rates.push_back(get_rate(end, to, address, *handle, size, ipc ? 20 : 4));
    }
    end.tell();
    end.await();
  }
  other.send("closed");
  return rates;
}

int run(bool quick) {
  const std::size_t size = quick ? std::size_t{512} << 10 : std::size_t{256} << 20;
  const int calls = quick ? 1'000 : 100'000;
  test::Child child{[&](test::Channel& other) { return owner(other, size); }};  // before the driver is initialised here
  const CUcontext context = first_context();
  if (context == nullptr) return kNothingToMeasure;
  std::array<char, 128> name{};
  cuDeviceGetName(name.data(), static_cast<int>(name.size()), 0);
  std::printf("# GPU memory on %s\n\nDriver for CUDA %d.%d. Written by `tests/gpu/run`.\n", name.data(),
              start({}).driver_version / 1000, start({}).driver_version % 1000 / 10);
  if (cuda_double::control() != nullptr) std::printf("\nThis is the driver double: no time here means anything.\n");
  print_pointers(calls);
  MemoryHandle handle;
  if (!read_object(child.channel().receive(), handle)) {
    std::fprintf(stderr, "gpu_measure: the other process has no memory to read\n");
    return 1;
  }
  print_handles(handle, context, calls);
  CUdeviceptr to = 0;
  CUdeviceptr from = 0;
  if (cuMemAlloc(&to, size) != CUDA_SUCCESS || cuMemAlloc(&from, size) != CUDA_SUCCESS) return 1;
  const auto mapped = get_rates(child.channel(), true, pointer(to), handle.base, size);
  const auto staged = get_rates(child.channel(), false, pointer(to), handle.base, size);
  const auto sizes = sizes_up_to(size);
  if (mapped.size() != sizes.size() || staged.size() != sizes.size()) return 1;
  std::printf(
      "\n## Copies on one device, GB/s\n\n| bytes | within the process | get from the other process by IPC | the "
      "same staged | IPC / within |\n|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double within = copy_rate(context, pointer(to), pointer(from), sizes[i], 20);
    std::printf("| %zu | %.2f | %.2f | %.2f | %.2f |\n", sizes[i], within, mapped[i], staged[i], mapped[i] / within);
  }
  cuMemFree(to);
  cuMemFree(from);
  return child.wait(std::chrono::seconds{60}) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace opal::gpu

int main(int argc, char** argv) { return opal::gpu::run(argc > 1 && std::strcmp(argv[1], "--quick") == 0); }
