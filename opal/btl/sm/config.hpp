// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/config.hpp — the variables of the shared-memory transport; the only place where their defaults are
// written.
#pragma once
#include <chrono>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::btl::sm {

inline constexpr std::uint32_t kExclusivity = 600;  ///< above verbs and tcp, below smcuda

/// Chunks of the ring of a helped transfer, one ring per peer.  All chunks together fit into a core's cache.
inline constexpr std::uint32_t kPipelineChunks = 4;
inline constexpr ByteSize kPipelineChunk = 32_KiB;
/// Bytes of that ring in a segment: chunks, one cache line per chunk, two lines of header (helped_ring.hpp).
inline constexpr std::size_t kHelpedRingSize = kPipelineChunks * (kPipelineChunk.bytes + kCacheLine) + 2 * kCacheLine;

struct Config {
  std::uint32_t fbox_max = 32;
  ByteSize fbox_size = 256_KiB;
  ByteSize fbox_limit{16384 + 128};  // 16 KiB and the headers of the layers above
  ByteSize segment_size = 2_MiB;
  ByteSize eager = 16_KiB;
  ByteSize max_send = 32_KiB;
  std::string single_copy = "shared,xpmem,cma,knem";
  std::string large_get = "auto";
  ByteSize shared_help_from = 64_KiB;
  std::uint32_t fifo_slots = 1024;

  // Constants, no variables set them; tests use smaller values.
  /// Messages through the FIFO to one peer before the sender offers it a fast box.
  std::uint32_t fbox_threshold = 16;
  /// Pipelined get: after this time without a piece from the target, the initiator copies pieces itself.
  std::chrono::microseconds pipeline_wait{5};
  /// Time limit of connect() for the answer of the peer's connection manager.
  std::chrono::milliseconds connect_timeout{5000};
  /// Payload bytes of a small fragment; a large one has max_send.  A message that does not go through the fast box
  /// takes the smallest that fits.  A quarter of segment_size is for small fragments.
  ByteSize small_fragment = 4_KiB;
};

inline constexpr config::Var<Config> kVars[] = {
    {"fbox_max",
     &Config::fbox_max,
     config::Level::tuner,
     "Fast boxes that one process accepts at a time; idle ones are taken back for others. 0: none.",
     {.min = 0, .max = 4096},
     "boxes"},
    {"fbox_size",
     &Config::fbox_size,
     config::Level::tuner,
     "Bytes of each fast box; a message takes at most a quarter of it. A process accepts boxes of fbox_max times so "
     "many bytes.",
     {.min = 1_KiB, .max = 1_MiB, .power_of_two = true}},
    {"fbox_limit",
     &Config::fbox_limit,
     config::Level::tuner,
     "Largest message, with the headers of the layers above, that goes through a fast box if it fits; a larger one is "
     "faster as a fragment.",
     {.min = 64, .max = 256_KiB}},
    {"segment_size",
     &Config::segment_size,
     config::Level::tuner,
     "Most memory for messages to one peer; it is committed only as traffic needs it.",
     {.min = 256_KiB, .max = 64_MiB}},
    {"eager",
     &Config::eager,
     config::Level::tuner,
     "Largest message that is cheaper as one message than as a rendezvous. Below max_send.",
     {.min = 256, .max = 64_KiB}},
    {"max_send",
     &Config::max_send,
     config::Level::tuner,
     "Largest message, header included; larger data goes by put and get.",
     {.min = 4_KiB, .max = 1_MiB}},
    {"single_copy", &Config::single_copy, config::Level::user,
     "Copy mechanisms for put and get in order of preference, separated by commas: shared, xpmem, cma, knem; none ends "
     "the list."},
    {"large_get",
     &Config::large_get,
     config::Level::tuner,
     "Transfer mode of large gets and puts: alone (single copy), cooperative (copied by both sides), pipelined (gets "
     "of "
     "private memory: the peer fills chunks in shared memory), or auto: of mapped memory by shared_help_from; puts of "
     "private memory with help from 64 KiB on; gets of private memory by what earlier ones have taken.",
     {.choices = "auto|alone|cooperative|pipelined"}},
    {"shared_help_from",
     &Config::shared_help_from,
     config::Level::tuner,
     "Smallest put or get of mapped memory in which a running peer is asked to help.",
     {.min = 4_KiB}},
    {"fifo_slots",
     &Config::fifo_slots,
     config::Level::tuner,
     "Messages outside of fast boxes that may wait for one receiver.",
     {.min = 16, .max = 65536, .power_of_two = true},
     "messages"},
};
inline constexpr config::Group<Config> kGroup{"btl_sm", "Shared memory between processes of one host", kVars};

}  // namespace opal::btl::sm
