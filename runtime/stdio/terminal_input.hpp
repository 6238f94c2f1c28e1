// SPDX-License-Identifier: Apache-2.0
// runtime/stdio/terminal_input.hpp — what is typed on the launcher's terminal, forwarded to rank 0.
// Only a terminal is forwarded: any other stdin is handed to rank 0 itself, which reads what it needs and no more.
// Reads only while the launcher is in the terminal's foreground.  Threads: the loop's thread.
#pragma once
#include <string>

#include "runtime/event/loop.hpp"

namespace runtime::stdio {

class TerminalInput {
 public:
  /// Forwards from `terminal`, which it does not own, to `pipe` until either ends.
  TerminalInput(event::Loop& loop, int terminal, Fd pipe);

  /// The launcher was continued: it may be in the foreground again.
  void recheck() { update(); }

 private:
  void update();
  void read_terminal();
  void write_pipe();
  void close();

  event::Loop& loop_;
  const int terminal_;
  Fd pipe_;
  std::string pending_;
  bool at_end_ = false;
  event::Watch readable_;
  event::Watch writable_;
  event::Timer retry_;
};

}  // namespace runtime::stdio
