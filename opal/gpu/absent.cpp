// SPDX-License-Identifier: Apache-2.0
// What is left of opal/gpu in a build without CUDA's headers: no driver is ever loaded, so all memory is the host's.
#include "opal/gpu/context.hpp"
#include "opal/gpu/copier.hpp"
#include "opal/gpu/copy.hpp"
#include "opal/gpu/imported_memory.hpp"
#include "opal/gpu/load.hpp"
#include "opal/gpu/pinned.hpp"
#include "opal/gpu/remote_memory.hpp"

namespace opal::gpu {
namespace {

constexpr const char* kWhy = "built without CUDA's headers (cuda.h of the CUDA toolkit)";

Error absent() noexcept { return {Errc::not_supported, 0, kWhy}; }

}  // namespace

Status load_driver(const Config& /*config*/) { return {.loaded = false, .driver_version = 0, .why = kWhy}; }

namespace detail {
bool ask_whether_host(const void* /*address*/) noexcept { return true; }
Result<void> copy_any(void* to, const void* from, std::size_t size) noexcept {
  return copy_within(Copier::kPatience, to, from, size);
}
}  // namespace detail

Result<Memory> inspect(const void* /*address*/) noexcept { return Memory{}; }
void make_synchronous(const Memory& /*memory*/) noexcept {}

Result<DeviceId> device_id(int /*ordinal*/) noexcept { return absent(); }
Result<std::optional<int>> ordinal_of(const DeviceId& /*device*/) noexcept { return absent(); }
Result<bool> can_access(int /*ordinal*/, int /*peer*/) noexcept { return absent(); }

Result<CurrentContext> CurrentContext::enter(ContextHandle /*context*/) noexcept { return absent(); }
CurrentContext::~CurrentContext() = default;
Result<std::uint64_t> context_id(ContextHandle /*context*/) noexcept { return absent(); }
Result<WorkContext> WorkContext::of(const Memory& /*memory*/) noexcept { return absent(); }
Result<WorkContext> WorkContext::on_device(int /*ordinal*/) noexcept { return absent(); }
Result<WorkContext> WorkContext::any() noexcept { return absent(); }
WorkContext& WorkContext::operator=(WorkContext&& other) noexcept {
  handle_ = other.handle_;
  ordinal_ = other.ordinal_;
  return *this;
}
WorkContext::~WorkContext() = default;

Result<MemoryHandle> export_memory(const Memory& /*memory*/) noexcept { return absent(); }
Result<std::uintptr_t> open_memory(const MemoryHandle& /*handle*/, ContextHandle /*context*/) noexcept {
  return absent();
}
void close_memory(std::uintptr_t /*address*/, ContextHandle /*context*/) noexcept {}

Result<Descriptor> export_descriptor(const Memory& /*memory*/) noexcept { return absent(); }
Result<ImportedMemory> ImportedMemory::take(const MemoryHandle& /*handle*/, Descriptor /*descriptor*/) noexcept {
  return absent();
}
ImportedMemory& ImportedMemory::operator=(ImportedMemory&& /*other*/) noexcept { return *this; }
void ImportedMemory::release() noexcept {}
Result<std::uintptr_t> ImportedMemory::map(ContextHandle /*context*/) const noexcept { return absent(); }
void ImportedMemory::unmap(const MemoryHandle& /*handle*/, std::uintptr_t /*address*/,
                           ContextHandle /*context*/) noexcept {}

Result<Pinned> Pinned::make(MutableBytes /*memory*/) noexcept { return absent(); }
void Pinned::undo() noexcept {}

struct Copier::Context {};
Copier::Copier(const Config& config, std::chrono::milliseconds patience) noexcept
    : most_streams_(config.copy_streams), most_events_(config.copy_events), patience_(patience) {}
Copier::~Copier() = default;
Result<void> Copier::copy(ContextHandle /*context*/, std::uint64_t /*lane*/, void* /*to*/, const void* /*from*/,
                          std::size_t /*size*/, Done /*done*/) noexcept {
  return absent();
}
std::size_t Copier::progress() noexcept { return 0; }
void Copier::finish(std::span<const std::uint64_t> /*lanes*/) noexcept {}
Result<void> copy_within(std::chrono::milliseconds /*patience*/, void* to, const void* from,
                         std::size_t size) noexcept {
  std::memmove(to, from, size);
  return {};
}

}  // namespace opal::gpu
