// SPDX-License-Identifier: Apache-2.0
// runtime/launch/control.hpp — the control socket of a running job: a Unix socket in the session directory, for
// processes of the same user.  A connection carries one request line and one answer line (docs/design/checkpoint.md).
#pragma once
#include <sys/types.h>

#include <chrono>
#include <list>
#include <memory>
#include <string>

#include "runtime/event/loop.hpp"
#include "runtime/launch/quiescence.hpp"

namespace runtime::launch {

/// The launcher's side.  It never blocks on a client.  Threads: the loop's thread.
class Control {
 public:
  /// Makes the socket in `directory`.  `quiescence` must outlive the object.  Errors: os.
  static Result<std::unique_ptr<Control>> open(event::Loop& loop, const std::string& directory, Quiescence& quiescence);

 private:
  struct Client {
    Fd fd;
    std::string line;   // the request, as far as it has come
    bool asks = false;  // its quiesce request is in progress
    event::Watch readable;
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

// The side of opalrun --quiesce and --resume: sends the request to the launcher with process id `launcher`, waits for
// the answer and prints a problem on stderr after `name`.  Returns the exit status, 0 or 1.

/// Quiesces the job.  `timeout`: how long the launcher waits for the ranks; zero: no limit.
int quiesce_job(const std::string& name, pid_t launcher, std::chrono::milliseconds timeout);
int resume_job(const std::string& name, pid_t launcher);

}  // namespace runtime::launch
