// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/pull.hpp — what an endpoint keeps of large gets and puts: those of ours that wait or run, and the peer's
// with which we help.  pull_ring.hpp has the shared memory, pull.cpp what the module does with it.
#pragma once
#include <array>
#include <cstdint>

#include "opal/btl/post.hpp"
#include "opal/btl/sm/single_copy/copy_mechanism.hpp"
#include "opal/btl/sm/helped/pull_ring.hpp"
#include "opal/btl/sm/helped/way_chooser.hpp"
#include "opal/core/error.hpp"

namespace opal::btl::sm {

struct Pulls {
  static constexpr std::uint32_t kMost = 64;  ///< waiting or running; more are copied without help

  struct Request {
    std::byte* here = nullptr;  ///< our memory: of a get the destination, of a put the source, which is only read
    RemoteRange there{};
    Completion* completion = nullptr;
    Way way = Way::pipelined;
    bool streamed = false;     ///< others were asked for in the same breath
    std::uint64_t put_no = 0;  ///< of a put: its number among the module's, from 1; 0: a get

    [[nodiscard]] bool is_put() const noexcept { return put_no != 0; }
  };

  Pulls(PullRing memory, std::uint32_t first_line) noexcept : ring(memory), line(first_line) {}

  Puller ring;
  std::uint32_t line;  // of the ring in our segment
  std::array<Request, kMost> requests{};
  std::uint32_t first = 0;  // the one that runs
  std::uint32_t count = 0;

  // Of the one that runs.
  bool announced = false;   // the peer knows of it
  std::uint32_t share = 0;  // units to take by single copy next, at most
  std::uint64_t began_ns = 0;
  std::uint64_t heard_ns = 0;  // when a piece came last, or we copied one
  UnitRange left_over{};       // of a put: what no mechanism copies, so that messages have to
  Error error{};               // why it fails, once nothing of it is under way any more

  [[nodiscard]] Request& running() noexcept { return requests[first]; }
  /// Whether a put with this number or one before is among them.
  [[nodiscard]] bool has_put_up_to(std::uint64_t last) const noexcept {
    for (std::uint32_t i = 0; i < count; ++i) {
      const Request& request = requests[(first + i) % kMost];
      if (request.is_put() && request.put_no <= last) return true;
    }
    return false;
  }
};

struct Feed {
  explicit Feed(PullRing memory, std::uint32_t first_line) noexcept : ring(memory), line(first_line) {}

  Feeder ring;
  std::uint32_t line;  // of the ring in the peer's segment
  bool active = false;
  bool put = false;  // we fetch from the peer what it puts; there are no chunks
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t destination = 0;  // in the peer's memory; 0: by chunks
  std::uint32_t least_share = 1;
  std::uint32_t pool = 0;  // of the peer, in which the destination lies
  SoftwareHandle region{};
};

}  // namespace opal::btl::sm
