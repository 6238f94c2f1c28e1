// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/upcalls.hpp — the functions libpmix calls when clients want something, as its table of C functions.
// They run in libpmix's thread: each copies its arguments, posts to the loop and returns; the loop answers.
#pragma once
#include <pmix_server.h>

#include <string>
#include <vector>

#include "runtime/event/loop.hpp"
#include "runtime/pmix/name_service.hpp"
#include "runtime/pmix/server.hpp"

namespace runtime::pmix {

/// What the upcalls work on, in the loop's thread.
struct Core {
  enum class Membership : std::uint8_t { outside, member, left };

  Core(event::Loop& event_loop, std::string job, unsigned ranks, Host host_functions)
      : loop(event_loop),
        job_id(std::move(job)),
        membership(ranks, Membership::outside),
        host(std::move(host_functions)),
        names(event_loop) {}

  event::Loop& loop;
  const std::string job_id;
  std::vector<Membership> membership;  ///< index = rank
  const Host host;
  NameService names;
  std::vector<event::Callback> deferred;  ///< answers that wait for a dying rank's end to be reported
};

/// libpmix's table.  `core` is used by every later upcall of this process and must live as long as it.
pmix_server_module_t* upcalls(Core& core) noexcept;

}  // namespace runtime::pmix
