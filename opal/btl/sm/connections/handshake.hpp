// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/handshake.hpp — the messages of the Unix socket between two modules, byte for byte, and the
// address blob that leads to it.  One message in each direction makes a connection: each brings the descriptors of the
// sender's inbox, segment, registration table and doorbell.  Later messages ask for shared pools and cookies, or end
// it. Change anything here => bump kHelloVersion.  Everything received is checked before it is returned.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::sm {

inline constexpr std::uint32_t kAddressMagic = 0x6d73'706f;  // "opsm"
inline constexpr std::uint32_t kHelloMagic = 0x6568'6d73;    // "smhe"
inline constexpr std::uint32_t kHelloVersion = 5;

/// A module's address blob.
struct Address {
  std::uint32_t magic;
  std::uint32_t version;
  std::array<std::byte, 16> boot;   ///< /proc/sys/kernel/random/boot_id: the same on one running kernel only
  std::uint64_t network_namespace;  ///< inode: abstract sockets are seen within one only
  std::uint64_t user_namespace;     ///< inode: a user has different numbers in different ones
  std::uint64_t user_id;
  PeerId peer;
  PeerId door;  ///< random name of the socket

  /// The address of a socket called `door` in this process's world.  Errors: os.
  OPAL_EXPORT static Result<Address> here(const PeerId& peer, const PeerId& door);
  /// Errors: protocol, version_mismatch.
  OPAL_EXPORT static Result<Address> decode(ByteSpan blob);
};
static_assert(sizeof(Address) == 80 && std::has_unique_object_representations_v<Address>, "wire layout v5");

enum class HelloKind : std::uint32_t {
  hello = 1,   ///< I want to connect
  accept,      ///< welcome
  crossing,    ///< there is, or will be, a connection in the other direction: use that
  refused,     ///< no; see `refusal`
  goodbye,     ///< I have sent my last message
  ask_pool,    ///< give me shared pool `pool` of yours
  pool,        ///< here is my shared pool `pool`, or, without `pool_base`, there is none
  ask_cookie,  ///< make a KNEM region of the registration `region` of yours
  cookie,      ///< here is the cookie of `region`, or 0
  file,        ///< here is a descriptor for `region`, which you have asked for in a message, or, with `refusal`, none
};

/// Bytes that go with a descriptor.
using FileNote = std::array<std::byte, 64>;

struct Hello {
  std::uint32_t magic = kHelloMagic;
  std::uint32_t version = kHelloVersion;
  HelloKind kind{};
  std::uint32_t refusal = 0;  ///< an Errc
  PeerId from;
  PeerId to;
  std::uint32_t your_index = 0;     ///< what the receiver writes into the sender's FIFO as its own name
  std::uint32_t max_send = 0;       ///< the sender's largest message
  std::uint32_t fences = 0;         ///< 1: the sender's stores can be fenced from afar (core/sync/asymmetric_fence.hpp)
  std::uint32_t pool = 0;           ///< number of a shared pool (mpool/shared_directory.hpp)
  std::uint64_t probe_address = 0;  ///< of a page of ProbePage::kSize bytes
  std::uint64_t probe_seed = 0;
  std::uint64_t pool_base = 0;     ///< address of the pool in its owner
  std::int64_t xpmem_segment = 0;  ///< the sender's memory as an XPMEM segment; 0: it offers none
  std::uint64_t knem_cookie = 0;   ///< with hello and accept: of the page at probe_address; 0: none
  SoftwareHandle region{};         ///< of a registration
  std::uint64_t extensions = 0;    ///< with hello and accept: what the sender can beyond sm; bits of kExtension...
  FileNote note{};                 ///< with a file: what else is to be known about it
};
static_assert(sizeof(Hello) == 208 && std::has_unique_object_representations_v<Hello>, "wire layout v5");

inline constexpr std::uint64_t kExtensionGpu = 1;  ///< it is a smcuda module

/// A descriptor that the peer was asked for.
struct ReceivedFile {
  SoftwareHandle region{};
  FileNote note{};
  Fd file{};  ///< none: refused
};

/// The descriptors that come with `hello` and `accept`, in this order.
struct HelloFds {
  Fd inbox;
  Fd segment;
  Fd registrations;
  Fd doorbell;
};
inline constexpr std::size_t kHelloFds = 4;

struct ReceivedHello {
  Hello hello;
  HelloFds fds;  ///< only with hello and accept
  Fd pool;       ///< only with a pool that exists, or a file
};

/// The process at the other end of a connected Unix socket.  Errors: os, permission (another user).
struct PeerProcess {
  int pid;  ///< 0 when it is not visible in this PID namespace
  OPAL_EXPORT static Result<PeerProcess> of(int socket);
};

/// A listening socket with the abstract name of `door`.  Errors: os.
OPAL_EXPORT Result<Fd> listen_at(const PeerId& door);
/// A socket connected to it.  Errors: unreachable (no process listens, or not in time), os.
OPAL_EXPORT Result<Fd> connect_to(const PeerId& door, const Deadline& deadline);

/// Sends a message with `fds` (four, one with a pool or a file, or none).  Never blocks.  Errors: peer_gone, os.
OPAL_EXPORT Result<void> send_hello(int socket, const Hello& hello, std::span<const int> fds = {});

/// Waits for a message.  Errors: timed_out, peer_gone (closed), protocol, version_mismatch, os.
OPAL_EXPORT Result<ReceivedHello> receive_hello(int socket, const Deadline& deadline);

}  // namespace opal::btl::sm
