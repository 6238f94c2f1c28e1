// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap/bootstrap.hpp — connection setup without a launcher: two Contexts exchange only their addresses
// over a TCP socket (wire.hpp); then both connect by the best transport.
// A pending connection costs a descriptor and about 250 bytes until its peer has proved that it knows the secret.
// Ownership: the Context owns the Bootstrap.  Threads: under the Context's lock; the Context's progress() accepts.
// exchange_addresses() blocks its caller and takes no lock.
#pragma once
#include <netdb.h>
#include <sys/socket.h>

#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opal/am/bootstrap/wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::am {

class Waiter;

/// The listening side.
class OPAL_EXPORT Bootstrap {
 public:
  /// Listens at every address that the name resolves to, all with one port.  Skips addresses that this host lacks.
  /// `waiter` is borrowed and watches the sockets.
  /// Errors: invalid_argument (not "host:port"), unreachable (host unknown), os (no address works, or the port is
  /// used).
  static Result<std::unique_ptr<Bootstrap>> listen(std::string_view host_port, const Secret& secret, Waiter& waiter);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  /// In a forked child: closes the child's copies of the descriptors and sends nothing.
  void close_in_child() noexcept;

  /// "host:port" of address().
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  /// The address of the first listening socket.
  [[nodiscard]] const sockaddr_storage& address() const noexcept { return address_; }

  /// Does not block.  Accepts connections and reads from them.  Calls `arrived(ByteSpan address)` for each complete,
  /// authenticated address; if it returns true, sends the address `own` back.  Closes the connection afterwards.
  /// Returns the number of calls of `arrived`.
  template <class Arrived>
  std::size_t progress(ByteSpan own, Arrived arrived) {
    for (const Fd& socket : sockets_) accept_at(socket);
    std::size_t count = 0;
    for (auto pending = pending_.begin(); pending != pending_.end();) {
      switch (read(*pending)) {
        case Reading::more:
          if (pending->timeout.expired()) break;
          ++pending;
          continue;
        case Reading::broken: break;
        case Reading::whole:
          if (arrived(pending->peer_address)) answer(*pending, own);
          ++count;
          break;
      }
      pending = drop(pending);
    }
    return count;
  }

 private:
  static constexpr std::size_t kMaxPending = 64;      // pending connections at once; see make_room()
  static constexpr std::chrono::seconds kTimeout{5};  // the first progress() after it closes a pending connection

  enum class Reading { more, whole, broken };
  struct Pending {
    Fd socket;
    bootstrap_wire::Challenge challenge;
    bootstrap_wire::Head head{};
    bool head_is_genuine = false;           // the head is complete and its proof is right
    std::vector<std::byte> peer_address{};  // allocated with the announced size when head_is_genuine
    std::size_t received = 0;               // bytes of the head; bytes of the address when head_is_genuine
    Deadline timeout = Deadline::after(kTimeout);
  };

  Bootstrap(std::vector<Fd> sockets, const Secret& secret, Waiter& waiter) noexcept;
  void accept_at(const Fd& socket);
  /// Closes the oldest pending connection without a genuine head, else the oldest one.
  void make_room();
  Reading read(Pending& pending);
  void answer(Pending& pending, ByteSpan own);
  std::list<Pending>::iterator drop(std::list<Pending>::iterator pending);

  std::vector<Fd> sockets_;
  std::string where_;
  sockaddr_storage address_{};
  const Secret secret_;
  Waiter& waiter_;
  std::list<Pending> pending_;  // oldest first
};

/// The connecting side: sends the address `own` and returns the listener's address.  Blocks at most for `timeout`
/// (negative: no limit).  Retries refused connections until then, so the listener may start later.
/// Errors: invalid_argument, unreachable, timed_out, permission (the listener's proof is wrong), version_mismatch,
/// protocol (also: the listener refused this side's proof or address), os.
Result<std::vector<std::byte>> exchange_addresses(std::string_view host_port, const Secret& secret, ByteSpan own,
                                                  std::chrono::milliseconds timeout);

// ---- Shared by both sides

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// "host:port" or "[v6]:port" resolved.  Errors: invalid_argument, unreachable.
Result<AddressList> resolve(std::string_view host_port, bool to_listen);

/// Connects to the first address of `list` that answers.  Tries the next one in parallel after 250 ms without an
/// answer. Errors: unreachable (ECONNREFUSED if any has refused), timed_out, os.
OPAL_EXPORT Result<Fd> connect_to_any(const addrinfo* list, const Deadline& deadline);

/// Sends all bytes on a non-blocking socket; waits at most until `deadline`.
/// Errors: timed_out, unreachable, protocol (the peer closed the connection), os.
Result<void> send_all(int socket, ByteSpan bytes, const Deadline& deadline);

}  // namespace opal::am
