// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap.hpp — finding each other without a launcher: a TCP socket over which two Contexts exchange address
// blobs, and nothing else; then both connect by the best transport.
// Wire, both directions:  u32 magic | u32 size | size bytes of address blob.  The listener answers after it has read.
// Owned by the Context; accept side runs from its progress, the connecting side blocks.
#pragma once
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  static Result<std::unique_ptr<Bootstrap>> listen(std::string_view host_port, Waiter& waiter);
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
          if (arrived(ByteSpan{visitor->bytes}.subspan(kHeaderSize))) answer(*visitor, own);
          ++count;
          break;
      }
      visitor = drop(visitor);
    }
    return count;
  }

 private:
  static constexpr std::size_t kHeaderSize = 8;
  static constexpr std::size_t kMaxVisitors = 64;  // half-finished exchanges at once; more wait in the kernel's queue
  static constexpr std::chrono::seconds kPatience{5};  // a visitor that takes longer loses its place

  enum class Reading { more, whole, broken };
  struct Visitor {
    Fd socket;
    std::vector<std::byte> bytes;  // received so far; grows to the announced size only after the header was checked
    std::size_t received = 0;
    Deadline patience = Deadline::after(kPatience);
  };

  Bootstrap(Fd socket, std::string where, Waiter& waiter) noexcept;
  void accept_new();
  static Reading read(Visitor& visitor);
  static void answer(Visitor& visitor, ByteSpan own);
  std::list<Visitor>::iterator drop(std::list<Visitor>::iterator visitor);

  Fd socket_;
  std::string where_;
  Waiter& waiter_;
  std::list<Visitor> visitors_;
};

/// The connecting side: sends `own`, returns the listener's blob.  Blocks at most `timeout`; refused connections are
/// tried again until then, so that the order of starting does not matter.
/// Errors: invalid_argument, unreachable, timed_out, protocol, os.
Result<std::vector<std::byte>> exchange_addresses(std::string_view host_port, ByteSpan own,
                                                  std::chrono::milliseconds timeout);

}  // namespace opal::am
