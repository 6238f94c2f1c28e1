// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/queue_user.hpp — receives the completions of a queue pair; the module finds it by the number.
#pragma once
#include <infiniband/verbs.h>

#include "opal/core/bytes.hpp"

namespace opal::btl::verbs {

class QueueUser {
 public:
  /// A send request, or several of which it is the last, ended.  `wc.wr_id` is as posted; only that, status and
  /// vendor_err are valid in a failed one.
  virtual void on_sent(const ibv_wc& wc) noexcept = 0;
  /// A message arrived; `bytes` are valid during the call, and the peer's.
  virtual void on_received(ByteSpan bytes) noexcept = 0;

 protected:
  ~QueueUser() = default;
};

}  // namespace opal::btl::verbs
