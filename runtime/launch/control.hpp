// SPDX-License-Identifier: Apache-2.0
// runtime/launch/control.hpp — how commands reach the launcher of a running job: a socket in its session directory, for
// processes of its user.  A connection carries one request, a line, and is answered by a line
// (docs/design/checkpoint.md).
#pragma once
#include <sys/types.h>

#include <chrono>
#include <list>
#include <memory>
#include <string>

#include "runtime/event/loop.hpp"
#include "runtime/launch/quiescence.hpp"

namespace runtime::launch {

/// The launcher's side.  No client holds it up.  Threads: the loop's thread.
class Control {
 public:
  /// `quiescence` must outlive it.  Errors: os.
  static Result<std::unique_ptr<Control>> open(event::Loop& loop, const std::string& directory, Quiescence& quiescence);

 private:
  struct Client {
    Fd fd;
    std::string line;
    bool asks = false;  // for what quiescence_ is at
    event::Watch readable;
    event::Timer silence;
  };
  using Clients = std::list<Client>;

  Control(event::Loop& loop, Fd listener, Quiescence& quiescence);
  void admit();
  void read(Clients::iterator client);
  void serve(Clients::iterator client);
  void answer(Clients::iterator client, const std::string& problem);
  void drop(Clients::iterator client);

  event::Loop& loop_;
  const Fd listener_;
  Quiescence& quiescence_;
  Clients clients_;
  event::Watch arrivals_;
  event::Timer retry_;
};

/// A command's side: asks the launcher with this process id, waits for the answer, says on stderr what prevents it.
/// Returns the command's exit status.  `timeout` zero: none.
int quiesce_job(const std::string& name, pid_t launcher, std::chrono::milliseconds timeout);
int resume_job(const std::string& name, pid_t launcher);

}  // namespace runtime::launch
