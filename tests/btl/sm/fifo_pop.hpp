// SPDX-License-Identifier: Apache-2.0
// tests/btl/sm/fifo_pop.hpp — front() and drop_front() of a FIFO's consumer in one call.
#pragma once
#include <optional>

#include "opal/btl/sm/messages/memory/fifo.hpp"

namespace opal::btl::sm {

template <class Consumer>
std::optional<wire::FifoItem> pop(Consumer& consumer) {
  const auto item = consumer.front();
  if (item) consumer.drop_front();
  return item;
}

}  // namespace opal::btl::sm
