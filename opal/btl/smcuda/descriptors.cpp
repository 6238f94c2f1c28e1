// SPDX-License-Identifier: Apache-2.0
// Descriptors of GPU memory that cuIpcGetMemHandle cannot export: requested by a message, sent over sm's socket
// (sm/connections/connection_manager.hpp).
#include "opal/btl/smcuda/module.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::smcuda {

/// Requests a descriptor, if it is due.  The next transfer looks whether it has come.
void Module::ask_for_file(btl::Endpoint& to, Peer& peer, const SoftwareHandle& region,
                          const gpu::MemoryHandle& memory) noexcept {
  if (!peer.imports.should_ask(memory)) return;
  const wire::AskFile question{region};
  expect_file(to);  // before the request is sent, since the answer may come at once
  emulation().answer(to, wire::kAskFile, bytes_of(question));
  peer.imports.asked(region, memory);
}

void Module::on_ask_file(Delivery& delivery) noexcept {
  wire::AskFile question{};
  if (delivery.data.size() != sizeof question || !read_object(delivery.data, question)) return;
  auto made = descriptor_of(question.region);
  if (!made) log::debug("btl.smcuda", "no descriptor for a peer: {}", to_string(made.error()));
  give_file(delivery.from, question.region, made ? made->note : gpu::Descriptor::Note{}, made ? made->file.get() : -1);
}

/// Makes a descriptor of the GPU allocation that contains the registration `region`.  As a handle of legacy memory, it
/// gives the peer access to the whole allocation.  Errors: not_supported, invalid_argument, those of the driver.
Result<gpu::Descriptor> Module::descriptor_of(const SoftwareHandle& region) const noexcept {
  if (!settings_.own.ipc) return Error{Errc::not_supported, 0, "btl_smcuda_ipc is off"};
  OPAL_TRY_ASSIGN(const SoftwareHandle own, parameters().registrations.view().find(region.slot, region.generation));
  OPAL_TRY_ASSIGN(const gpu::Memory memory, gpu::inspect(reinterpret_cast<const void*>(own.base)));
  if (!memory.contains(own.base, own.size)) {
    return Error{Errc::invalid_argument, 0, "smcuda: not in one allocation", own.base};
  }
  // Refuses memory for which export_memory() makes no handle.
  OPAL_TRY(gpu::export_memory(memory));
  return gpu::export_descriptor(memory);
}

void Module::on_file(btl::Endpoint& from, sm::ReceivedHello& answer) noexcept {
  const auto found = peers_.find(&from);
  if (found == peers_.end()) return;
  found->second.imports.take(answer.hello.region, {std::move(answer.file), answer.hello.note});
}

}  // namespace opal::btl::smcuda
