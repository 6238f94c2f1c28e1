// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/handshake.hpp — the messages on the Unix socket between two modules, byte for byte, and the
// address that names the socket.  One message in each direction makes a connection: each carries the descriptors of the
// sender's inbox, segment, registration table and doorbell.  Later messages request and send shared pools, cookies and
// other descriptors, or end the connection.  Any change here: increment kHelloVersion.
// receive_hello() checks magic, version, size and number of descriptors.  The receiver checks all other fields.
// Threads: any.
#pragma once
#include <sys/types.h>

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
inline constexpr std::uint32_t kHelloVersion = 6;

/// The address of a module (btl::Module::address()).
struct Address {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t host;            ///< identify_host() of the network namespace: abstract sockets are visible only in it
  std::uint64_t user_namespace;  ///< inode: user ids are comparable only within one user namespace
  std::uint64_t user_id;
  PeerId peer;
  PeerId door;  ///< random name of the listening socket, see listen_at()

  /// The address of this process, whose listening socket has the name `door`.  Errors: os.
  OPAL_EXPORT static Result<Address> here(const PeerId& peer, const PeerId& door);
  /// Errors: protocol, version_mismatch.
  OPAL_EXPORT static Result<Address> decode(ByteSpan blob);
};
static_assert(sizeof(Address) == 64 && std::has_unique_object_representations_v<Address>, "wire layout v6");

enum class HelloKind : std::uint32_t {
  hello = 1,   ///< the sender requests a connection
  accept,      ///< the connection is made
  crossing,    ///< the connection is refused: one in the other direction exists, or will exist
  refused,     ///< the connection is refused for the reason `refusal`
  goodbye,     ///< the sender disconnects; it sends no further message
  ask_pool,    ///< requests the receiver's shared pool `pool`
  pool,        ///< answer: the descriptor of `pool`; refused if `pool_base` is 0
  ask_cookie,  ///< requests a KNEM region of the receiver's registration `region`
  cookie,      ///< answer: the cookie of `region`; refused if it is 0
  file,        ///< answer to an active message: a descriptor for `region`; refused if `refusal` is not 0
};

/// Bytes that accompany the descriptor of a `file`; the transport above sm defines them.
using FileNote = std::array<std::byte, 64>;

/// Every message.  A field whose comment names a kind is used only with that kind.
struct Hello {
  std::uint32_t magic = kHelloMagic;
  std::uint32_t version = kHelloVersion;
  HelloKind kind{};
  std::uint32_t refusal = 0;  ///< with refused and file: an Errc
  PeerId from;
  PeerId to;
  // With hello and accept, unless the comment names another kind:
  std::uint32_t your_index = 0;     ///< the receiver writes it into its FIFO items for the sender (wire::FifoItem)
  std::uint32_t max_send = 0;       ///< the sender's largest message, bytes
  std::uint32_t fences = 0;         ///< 1: the sender's process accepts remote fences (core/sync/asymmetric_fence.hpp)
  std::uint32_t pool = 0;           ///< with ask_pool and pool: number of the pool (mpool/shared_directory.hpp)
  std::uint64_t probe_address = 0;  ///< of the sender's ProbePage
  std::uint64_t probe_seed = 0;
  std::uint64_t pool_base = 0;     ///< with pool: address of the pool in its owner
  std::int64_t xpmem_segment = 0;  ///< the sender's memory as an XPMEM segment; 0: none
  std::uint64_t knem_cookie = 0;   ///< of the ProbePage, or with cookie: of `region`; 0: none
  SoftwareHandle region{};         ///< with ask_cookie, cookie and file: a registration
  std::uint64_t extensions = 0;    ///< features of the sender beyond sm: bits of kExtension...
  FileNote note{};                 ///< with file
};
static_assert(sizeof(Hello) == 208 && std::has_unique_object_representations_v<Hello>, "wire layout v6");

inline constexpr std::uint64_t kExtensionGpu = 1;  ///< the sender is a smcuda module

/// The descriptors that come with `hello` and `accept`, in this order.
struct HelloFds {
  Fd inbox;
  Fd segment;
  Fd registrations;
  Fd doorbell;
};
inline constexpr std::size_t kHelloFds = 4;

struct ReceivedHello {
  Hello hello{};
  HelloFds fds{};  ///< only with hello and accept
  Fd file{};       ///< only with pool and file, unless refused or this process has no free descriptor
};

/// The process at the other end of a connected Unix socket, as the kernel reports it; 0: it is not visible in this PID
/// namespace.  Errors: os, permission (another user).
OPAL_EXPORT Result<pid_t> pid_of_peer(int socket);

/// A listening, non-blocking socket with the abstract name "opal-sm-<door>".  Errors: os.
OPAL_EXPORT Result<Fd> listen_at(const PeerId& door);
/// A non-blocking socket connected to the one that listens at `door`.  Errors: unreachable (no process listens, or its
/// queue stays full until `deadline`), os.
OPAL_EXPORT Result<Fd> connect_to(const PeerId& door, const Deadline& deadline);

/// Sends a message with `fds` (four with hello and accept, one with pool and file, else none).  Never blocks.
/// Errors: peer_gone, os (also: the socket is full).
OPAL_EXPORT Result<void> send_hello(int socket, const Hello& hello, std::span<const int> fds = {});

/// Waits for a message until `deadline`.
/// Errors: timed_out, peer_gone (the peer closed the socket), protocol, version_mismatch, limit_reached (no free
/// descriptor for those of hello or accept), os.
OPAL_EXPORT Result<ReceivedHello> receive_hello(int socket, const Deadline& deadline);

}  // namespace opal::btl::sm
