// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap.hpp — finding each other without a launcher: a TCP socket over which two Contexts exchange address
// blobs (bootstrap_wire.hpp), and nothing else; then both connect by the best transport.
// A visitor costs a descriptor and ~250 bytes until it has proved to know the secret.
// Owned by the Context; accept side runs from its progress, the connecting side blocks.
#pragma once
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opal/am/bootstrap_wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/fd.hpp"
#include "opal/core/result.hpp"

namespace opal::am {

class Waiter;

/// The listening side.
class Bootstrap {
 public:
  /// Errors: invalid_argument (not "host:port"), unreachable (host unknown), os.
  static Result<std::unique_ptr<Bootstrap>> listen(std::string_view host_port, const Secret& secret, Waiter& waiter);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  /// "host:port" that peers can use.
  [[nodiscard]] const std::string& where() const noexcept { return where_; }

  /// Accepts, reads and answers as far as possible without blocking; calls `arrived(ByteSpan blob)` for each whole blob
  /// and sends `own` back if that returns true.  Returns how many arrived.
  template <class Arrived>
  std::size_t progress(ByteSpan own, Arrived arrived) {
    accept_new();
    std::size_t count = 0;
    for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
      switch (read(*visitor)) {
        case Reading::more:
          if (visitor->patience.expired()) break;
          ++visitor;
          continue;
        case Reading::broken: break;
        case Reading::whole:
          if (arrived(visitor->blob)) answer(*visitor, own);
          ++count;
          break;
      }
      visitor = drop(visitor);
    }
    return count;
  }

 private:
  static constexpr std::size_t kMaxVisitors = 64;  // half-finished exchanges at once; more wait in the kernel's queue
  static constexpr std::chrono::seconds kPatience{5};  // a visitor that takes longer loses its place

  enum class Reading { more, whole, broken };
  struct Visitor {
    Fd socket;
    bootstrap_wire::Challenge challenge;
    bootstrap_wire::Head head{};
    bool head_is_genuine = false;
    std::vector<std::byte> blob{};  // of the announced size, once that is known to come from a friend
    std::size_t received = 0;       // of the head, then of the blob
    Deadline patience = Deadline::after(kPatience);
  };

  Bootstrap(Fd socket, std::string where, const Secret& secret, Waiter& waiter) noexcept;
  void accept_new();
  Reading read(Visitor& visitor);
  void answer(Visitor& visitor, ByteSpan own);
  std::list<Visitor>::iterator drop(std::list<Visitor>::iterator visitor);

  Fd socket_;
  std::string where_;
  const Secret secret_;
  Waiter& waiter_;
  std::list<Visitor> visitors_;
};

/// The connecting side: sends `own`, returns the listener's blob.  Blocks at most `timeout`; refused connections are
/// tried again until then, so that the order of starting does not matter.
/// Errors: invalid_argument, unreachable, timed_out, permission, version_mismatch, protocol, os.
Result<std::vector<std::byte>> exchange_addresses(std::string_view host_port, const Secret& secret, ByteSpan own,
                                                  std::chrono::milliseconds timeout);

}  // namespace opal::am
