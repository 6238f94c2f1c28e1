// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/config.hpp — the variables of the shared-memory transport; the only place where their defaults are
// written.
#pragma once
#include <chrono>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config.hpp"

namespace opal::btl::sm {

inline constexpr std::uint32_t kExclusivity = 600;  ///< above verbs and tcp, below smcuda

struct Config {
  std::uint32_t fbox_threshold = 16;
  std::uint32_t fbox_max = 32;
  ByteSize fbox_size = 256_KiB;
  ByteSize fbox_limit{16384 + 128};  // 16 KiB and the headers of the layers above
  ByteSize fbox_budget = 8_MiB;
  ByteSize segment_size = 2_MiB;
  ByteSize eager = 16_KiB;
  ByteSize small_fragment = 4_KiB;
  ByteSize eager_shared_core = 16_KiB;
  ByteSize max_send = 32_KiB;
  std::uint32_t fifo_slots = 1024;
  std::string single_copy = "shared,xpmem,cma,knem";
  std::string large_get = "auto";
  ByteSize pipeline_from = 8_KiB;
  ByteSize shared_help_from = 16_KiB;
  ByteSize pipeline_chunk = 32_KiB;
  std::uint32_t pipeline_chunks = 8;
  std::chrono::microseconds pipeline_timeout{3};
  bool cores_shared = false;
  std::chrono::milliseconds connect_timeout{5000};
};

inline constexpr config::Var<Config> kVars[] = {
    {"fbox_threshold",
     &Config::fbox_threshold,
     {.min = 1, .max = 1 << 20},
     "sends",
     config::Level::tuner,
     "Sends to one peer before it is offered a fast box."},
    {"fbox_max",
     &Config::fbox_max,
     {.min = 0, .max = 4096},
     "boxes",
     config::Level::tuner,
     "Fast boxes that one process accepts at a time, idle ones being taken back for others; 0 turns them off."},
    {"fbox_size",
     &Config::fbox_size,
     {.min = 1_KiB, .max = 1_MiB, .power_of_two = true},
     "bytes",
     config::Level::tuner,
     "Bytes of each fast box; a message takes at most a quarter of it."},
    {"fbox_limit",
     &Config::fbox_limit,
     {.min = 64, .max = 256_KiB},
     "bytes",
     config::Level::tuner,
     "Largest message, with the headers of the layers above, that goes through a fast box if it fits; above it a "
     "fragment is faster."},
    {"fbox_budget",
     &Config::fbox_budget,
     {.min = 0, .max = 1_GiB},
     "bytes",
     config::Level::tuner,
     "Bytes of all fast boxes that one process accepts; idle ones are taken back when others ask."},
    {"segment_size",
     &Config::segment_size,
     {.min = 256_KiB, .max = 64_MiB},
     "bytes",
     config::Level::tuner,
     "Most memory that messages to one peer may take; committed only as traffic needs it."},
    {"eager",
     &Config::eager,
     {.min = 256, .max = 64_KiB},
     "bytes",
     config::Level::tuner,
     "Size up to which one message is a cheaper way than an offer and a get. Below max_send."},
    {"small_fragment",
     &Config::small_fragment,
     {.min = 256, .max = 64_KiB},
     "bytes",
     config::Level::tuner,
     "Payload of a small fragment, which messages outside of the fast box take if they fit; others take one of "
     "max_send. A quarter of the segment is for small ones."},
    {"eager_shared_core",
     &Config::eager_shared_core,
     {.min = 256, .max = 1_MiB},
     "bytes",
     config::Level::tuner,
     "As eager, where processes outnumber cores: one message needs fewer hand-overs than a get. Never less than eager "
     "nor more than max_send."},
    {"max_send",
     &Config::max_send,
     {.min = 4_KiB, .max = 1_MiB},
     "bytes",
     config::Level::tuner,
     "Largest message, header included; larger data goes by put and get."},
    {"fifo_slots",
     &Config::fifo_slots,
     {.min = 16, .max = 65536, .power_of_two = true},
     "messages",
     config::Level::tuner,
     "Messages outside of fast boxes that may wait for one receiver."},
    {"single_copy",
     &Config::single_copy,
     {},
     "",
     config::Level::user,
     "Mechanisms for put and get in order of preference, separated by commas: shared, xpmem, cma, knem; none ends the "
     "list."},
    {"large_get",
     &Config::large_get,
     {},
     "",
     config::Level::tuner,
     "How large gets and puts are done: alone (single copy), cooperative (by both sides), pipelined (gets only: "
     "the peer fills chunks in shared memory that we empty), or auto: each is tried, and what is fastest at a size is "
     "used."},
    {"pipeline_from",
     &Config::pipeline_from,
     {.min = 4_KiB},
     "bytes",
     config::Level::tuner,
     "Smallest get of private memory in which a running peer is asked to help."},
    {"shared_help_from",
     &Config::shared_help_from,
     {.min = 4_KiB},
     "bytes",
     config::Level::tuner,
     "Smallest get of memory that is mapped here in which a running peer is asked to help."},
    {"pipeline_chunk",
     &Config::pipeline_chunk,
     {.min = 4_KiB, .max = 4_MiB, .power_of_two = true},
     "bytes",
     config::Level::tuner,
     "Bytes of one chunk of the pipeline."},
    {"pipeline_chunks",
     &Config::pipeline_chunks,
     {.min = 2, .max = 64, .power_of_two = true},
     "chunks",
     config::Level::tuner,
     "Chunks of the pipeline from one peer; all together should fit a core's cache."},
    {"pipeline_timeout",
     &Config::pipeline_timeout,
     {.min = 0, .max = 1'000'000},
     "us",
     config::Level::tuner,
     "How long a helping peer may be silent before we copy parts of the rest ourselves."},
    {"cores_shared",
     &Config::cores_shared,
     {},
     "",
     config::Level::tuner,
     "Processes outnumber cores, so that a peer may have to wait for ours: the ways with fewer hand-overs are taken. "
     "An MPI process finds out."},
    {"connect_timeout",
     &Config::connect_timeout,
     {.min = 1, .max = 600'000},
     "ms",
     config::Level::developer,
     "How long connect() waits for the answer of a local peer."},
};
inline constexpr config::Group<Config> kGroup{"btl_sm", "Shared memory between processes of one host", kVars};

}  // namespace opal::btl::sm
