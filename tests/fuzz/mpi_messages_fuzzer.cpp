// SPDX-License-Identifier: Apache-2.0
// Messages of MPI from a peer (mpi_shim/p2p/wire.hpp, mpi_shim/rma/wire.hpp), to a process with one communicator, one
// send that waits for its receiver, and one window.  Each input is messages: one byte for the tag, one of length, and
// the content.  No message writes outside the window, and an access that is only fetched leaves the window as it is.
// The process sends them to itself: so `source` and `rank` are right if they are 0.
#include <mpi.h>
#include <sanitizer/lsan_interface.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "mpi_shim/comm/communicator.hpp"
#include "mpi_shim/handle/arena.hpp"
#include "mpi_shim/handle/table.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "mpi_shim/p2p/wire.hpp"
#include "mpi_shim/rma/window.hpp"
#include "mpi_shim/rma/wire.hpp"
#include "opal/core/log.hpp"

namespace {

using namespace mpi_shim;
namespace p2p_wire = p2p::wire;
namespace rma_wire = rma::wire;

constexpr std::array kTags{p2p_wire::kEager,      p2p_wire::kRendezvous, p2p_wire::kClearToSend, p2p_wire::kData,
                           p2p_wire::kFinished,   p2p_wire::kCancel,     p2p_wire::kCancelled,   p2p_wire::kFailure,
                           rma_wire::kPost,       rma_wire::kComplete,   rma_wire::kLock,        rma_wire::kGranted,
                           rma_wire::kUnlock,     rma_wire::kUnlocked,   rma_wire::kRefused,     rma_wire::kAccess,
                           rma_wire::kAccessReply};
constexpr std::size_t kWindow = 64;                        // bytes
constexpr std::size_t kMostArena = std::size_t{64} << 30;  // bytes; an arena of handles reserves no more

void must(bool holds) {
  if (!holds) std::abort();
}

/// Writes the id of an object of this process over the one in the message, which the input can hardly guess.
template <class Id>
void set_id(std::span<std::byte> message, std::size_t offset, Id id) {
  if (message.size() >= offset + sizeof id) std::memcpy(message.data() + offset, &id, sizeof id);
}

/// Makes the sizes in an access message agree with each other, which an input hardly does by itself: small blocks at
/// small distances, and as much data as they need.  Where the blocks are, in the window or outside, is left to the
/// input.
void repair(std::vector<std::byte>& message) {
  message.resize(std::max(message.size(), sizeof(rma_wire::AccessHeader)));
  rma_wire::AccessHeader header{};
  (void)read_object(message, header);
  header.more %= 4;
  header.element %= datatype::kElements;
  header.bytes = 0;
  const auto shrink = [&](rma_wire::Blocks& blocks) {
    blocks.displacement = static_cast<std::uint64_t>(static_cast<std::int8_t>(blocks.displacement));
    blocks.stride = static_cast<std::uint64_t>(static_cast<std::int8_t>(blocks.stride));
    blocks.bytes %= 2 * kWindow;
    blocks.count %= 4;
    header.bytes += blocks.bytes * blocks.count;
  };
  shrink(header.first);
  std::size_t end = sizeof header;
  for (std::uint32_t i = 0; i < header.more; ++i, end += sizeof(rma_wire::Blocks)) {
    message.resize(std::max(message.size(), end + sizeof(rma_wire::Blocks)));
    rma_wire::Blocks blocks{};
    std::memcpy(&blocks, message.data() + end, sizeof blocks);
    shrink(blocks);
    std::memcpy(message.data() + end, &blocks, sizeof blocks);
  }
  const std::size_t values = !header.has(rma_wire::kStores)                    ? 0
                             : header.action == rma_wire::Action::compare_swap ? 2
                                                                               : 1;
  message.resize(end + values * header.bytes);
  std::memcpy(message.data(), &header, sizeof header);
}

void start() {
  ::setenv("OPAL_AM_TRANSPORTS", "self", 1);
  opal::log::set_sink([](void*, const opal::log::Message&) noexcept {}, nullptr);  // a line for each refused message
  must(MPI_Init(nullptr, nullptr) == MPI_SUCCESS);
  // The arena is mapped memory, where LSan looks for pointers only when it is told to; the first handle reserves it.
  MPI_Info info{};
  must(MPI_Info_create(&info) == MPI_SUCCESS && MPI_Info_free(&info) == MPI_SUCCESS);
  const std::uintptr_t arena = handle::Arena::process().slot_address(0);
  must(arena != 0);
  __lsan_register_root_region(reinterpret_cast<void*>(arena), kMostArena);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const bool started = (start(), true);
  MPI_Comm comm{};
  must(MPI_Comm_dup(MPI_COMM_SELF, &comm) == MPI_SUCCESS);
  comm::Communicator& own = *handle::find<comm::Communicator>(comm);
  auto* const memory = static_cast<std::byte*>(std::calloc(1, kWindow));  // with red zones around it
  MPI_Win window{};
  must(MPI_Win_create(memory, kWindow, 1, MPI_INFO_NULL, comm, &window) == MPI_SUCCESS);
  const std::uint32_t window_id = handle::find<rma::Window>(window)->comm().id();
  MPI_Request send{};
  must(MPI_Issend(memory, 1, MPI_INT, 0, 0, comm, &send) == MPI_SUCCESS);

  p2p::Engine& engine = own.engine();
  am::Endpoint& self = *own.peer(0).endpoint;
  std::vector<std::byte> message;
  while (size >= 2) {
    const std::size_t length = std::min<std::size_t>(data[1], size - 2);
    const opal::Tag tag = kTags[(data[0] & 0x7f) % kTags.size()];
    const bool repaired = tag == rma_wire::kAccess && data[0] < 0x80;
    const auto content = std::as_bytes(std::span{data + 2, length});
    message.assign(content.begin(), content.end());
    data += 2 + length;
    size -= 2 + length;
    const bool to_window = tag >= rma_wire::kFirst && tag != rma_wire::kAccessReply;
    if (repaired) repair(message);
    if (to_window) set_id(message, 0, window_id);
    if (tag == p2p_wire::kEager || tag == p2p_wire::kRendezvous || tag == p2p_wire::kFailure) {
      set_id(message, 0, own.user().context);
    }
    if (tag == p2p_wire::kCancel) set_id(message, sizeof(p2p_wire::Cancel::send_id), own.user().context);
    rma_wire::AccessHeader access{};
    const bool reads = tag == rma_wire::kAccess && read_object(message, access) && !access.has(rma_wire::kStores);
    std::array<std::byte, kWindow> before;
    std::memcpy(before.data(), memory, kWindow);
    {
      const am::Lock::Guard guard{engine.lock()};
      must(self.send_or_queue(tag, message, {}) != opal::Post::failed);
    }
    engine.progress();
    must(!reads || std::memcmp(before.data(), memory, kWindow) == 0);
  }

  // The send ends, whatever has answered it.
  must(MPI_Cancel(&send) == MPI_SUCCESS);
  must(MPI_Wait(&send, MPI_STATUS_IGNORE) != MPI_ERR_REQUEST);
  must(MPI_Win_free(&window) == MPI_SUCCESS);
  must(MPI_Comm_free(&comm) == MPI_SUCCESS);
  std::free(memory);
  return 0;
}
