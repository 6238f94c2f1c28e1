// SPDX-License-Identifier: Apache-2.0
// opal/btl/self/module.hpp — the transport of a Context to itself.  A send copies the message into a ring of bytes.
// Put, get and atomics run within the post.
// Only progress() runs handlers.  If a send ran them, a handler that sends to itself would recurse.
// Owns its ring, its doorbell and its one endpoint.  Threads: as btl::Module.
#pragma once
#include <memory>
#include <vector>

#include "opal/btl/shared/connected_transport.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::self {

class Endpoint final : public btl::Endpoint {
 public:
  /// gpu_direct: the GPU's driver copies within a process, without staging.
  Endpoint(btl::Module& module, const PeerId& peer) noexcept : btl::Endpoint(module, peer) { gpu_direct = true; }
  [[nodiscard]] bool one_sided() const noexcept override { return true; }
  [[nodiscard]] std::string describe() const override { return "this very process"; }

 private:
  friend class Module;  // calls mark_dead()
};

class OPAL_EXPORT Module final : public ConnectedTransport<Endpoint> {
 public:
  /// Default size of the ring, in bytes.  The ring holds the messages that wait for progress(), each after a Record.
  static constexpr std::size_t kRing = 1U << 20;
  /// `ring`: the size of the ring in bytes, a power of two.  Errors: os.  Throws std::bad_alloc.
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, std::size_t ring = kRing);
  ~Module() override;

  [[nodiscard]] ByteSpan address() const noexcept override { return {}; }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;
  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept override;

  Post transfer(RdmaOperation::Kind kind, btl::Endpoint& to, std::byte* here, const MemoryHandle* local,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept override;
  Post atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept override;

  [[nodiscard]] int wait_fd() const noexcept override { return doorbell_.get(); }

 private:
  /// Precedes each message in the ring.  Messages are padded to 8 bytes, the size of a Record, so a Record always fits
  /// before the end of the ring.
  struct Record {
    std::uint32_t size;  // of the message, without Record and padding
    Tag tag;
    std::uint16_t kind;  // kMessage or kSkip
  };
  static constexpr std::uint16_t kMessage = 0;
  static constexpr std::uint16_t kSkip = 1;  // no message up to the end of the ring; the next one is at its start

  Module(const ModuleParameters& parameters, std::size_t ring, Fd doorbell);
  std::size_t receive(std::size_t budget) noexcept override;
  bool arm_wake_up() noexcept override;
  bool leave(Endpoint& endpoint, const Error& why) noexcept override;
  void close_in_child() noexcept override {}  // no peer watches the doorbell
  /// The index in the ring of a count of bytes: its remainder, since the size is a power of two.
  [[nodiscard]] std::size_t place_of(std::uint64_t bytes) const noexcept { return bytes & (ring_.size() - 1); }
  /// Returns contiguous room for a message of `size` bytes, after the room for its Record.  commit() writes the Record
  /// and makes the message visible to receive().  Null: the ring is full.
  std::byte* reserve(std::size_t size) noexcept;
  void commit(std::byte* place, std::size_t size, Tag tag) noexcept;
  /// Checks an access to registered memory.  False: completion.error is set.
  bool check(Completion& completion, const MemoryHandle& handle, std::uint64_t address, std::uint64_t size,
             Rights wanted) noexcept;

  std::vector<std::byte> ring_;
  std::uint64_t head_ = 0;        // bytes ever read; modulo the ring's size, the place of the next read
  std::uint64_t tail_ = 0;        // bytes ever written; modulo the ring's size, the place of the next write
  Endpoint* endpoint_ = nullptr;  // null: not connected
  Fd doorbell_;
  bool armed_ = false;  // the next commit() writes the doorbell
};

}  // namespace opal::btl::self
