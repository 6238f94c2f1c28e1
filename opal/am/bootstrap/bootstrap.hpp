// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap/bootstrap.hpp — finding each other without a launcher: a TCP socket over which two Contexts
// exchange address blobs (bootstrap_wire.hpp), and nothing else; then both connect by the best transport.
// A pending connection costs a descriptor and ~250 bytes until it has proved to know the secret.  Owned by the Context;
// the accept side runs from its progress, the connecting side blocks.
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
class Bootstrap {
 public:
  /// Listens at every address that the host's name has.
  /// Errors: invalid_argument (not "host:port"), unreachable (host unknown), os.
  static Result<std::unique_ptr<Bootstrap>> listen(std::string_view host_port, const Secret& secret, Waiter& waiter);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  /// In a forked child: closes its descriptors without a word.
  void close_in_child() noexcept;

  /// "host:port" that peers can use.
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  /// The first address that it listens at.
  [[nodiscard]] const sockaddr_storage& address() const noexcept { return address_; }

  /// Accepts, reads and answers as far as possible without blocking; calls `arrived(ByteSpan blob)` for each whole blob
  /// and sends `own` back if that returns true.  Returns how many arrived.
  template <class Arrived>
  std::size_t progress(ByteSpan own, Arrived arrived) {
    accept_new();
    std::size_t count = 0;
    for (auto pending = pending_.begin(); pending != pending_.end();) {
      switch (read(*pending)) {
        case Reading::more:
          if (pending->timeout.expired()) break;
          ++pending;
          continue;
        case Reading::broken: break;
        case Reading::whole:
          if (arrived(pending->blob)) answer(*pending, own);
          ++count;
          break;
      }
      pending = drop(pending);
    }
    look_at_clock();
    return count;
  }

 private:
  static constexpr std::size_t kMaxPending = 64;      // half-finished exchanges at once; beyond, the oldest gives way
  static constexpr std::chrono::seconds kTimeout{5};  // a pending connection that takes longer is closed
  static constexpr std::chrono::milliseconds kPause{100};  // when there are no descriptors to accept with

  enum class Reading { more, whole, broken };
  struct Pending {
    Fd socket;
    bootstrap_wire::Challenge challenge;
    bootstrap_wire::Head head{};
    bool head_is_genuine = false;
    std::vector<std::byte> blob{};  // of the announced size, once that is known to come from a friend
    std::size_t received = 0;       // of the head, then of the blob
    Deadline timeout = Deadline::after(kTimeout);
  };

  Bootstrap(std::vector<Fd> sockets, Fd clock, const Secret& secret, Waiter& waiter) noexcept;
  void accept_new();
  void accept_at(const Fd& socket);
  void make_room();
  Reading read(Pending& pending);
  void answer(Pending& pending, ByteSpan own);
  std::list<Pending>::iterator drop(std::list<Pending>::iterator pending);
  /// The clock wakes a sleeper when the time of a pending connection or the pause is over.
  void look_at_clock() noexcept;
  void set_clock(const Deadline& at) noexcept;

  std::vector<Fd> sockets_;
  Fd clock_;
  Deadline clock_at_ = Deadline::never();  // when it rings
  Deadline pause_ = Deadline::never();     // until then the sockets are not watched
  std::string where_;
  sockaddr_storage address_{};
  const Secret secret_;
  Waiter& waiter_;
  std::list<Pending> pending_;  // oldest first
};

/// The connecting side: sends `own`, returns the listener's blob.  Blocks at most `timeout`; refused connections are
/// tried again until then, so that the order of starting does not matter.  Negative: for ever.
/// Errors: invalid_argument, unreachable, timed_out, permission, version_mismatch, protocol, os.
Result<std::vector<std::byte>> exchange_addresses(std::string_view host_port, const Secret& secret, ByteSpan own,
                                                  std::chrono::milliseconds timeout);

// ---- Shared by both sides

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// "host:port" or "[v6]:port" resolved.  Errors: invalid_argument, unreachable.
Result<AddressList> resolve(std::string_view host_port, bool to_listen);

/// A connection to the first of the addresses that answers; the next one is tried beside one that stays silent.
/// Errors: unreachable (ECONNREFUSED if any has refused), timed_out, os.
OPAL_EXPORT Result<Fd> connect_to_any(const addrinfo* list, const Deadline& deadline);

/// Errors: timed_out, unreachable, protocol (the other side hung up).
Result<void> send_all(int socket, ByteSpan bytes, const Deadline& deadline);

}  // namespace opal::am
