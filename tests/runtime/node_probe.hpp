// SPDX-License-Identifier: Apache-2.0
// tests/runtime/node_probe.hpp — what a Node of the tree of daemons holds, for tests of its bounds.
#pragma once
#include "runtime/overlay/node.hpp"

namespace runtime::overlay {

struct NodeProbe {
  static std::size_t attached_children(const Node& node) noexcept { return node.by_channel_.size(); }
  /// Bytes of messages that are held for other members.
  static std::size_t held_bytes(const Node& node) noexcept {
    std::size_t bytes = 0;
    for (const auto& item : node.down_) bytes += item.body->size();
    for (const auto& item : node.up_) bytes += item.body->size();
    return bytes;
  }
  static std::size_t open_operations(const Node& node) noexcept { return node.collectives_.operations_.size(); }
};

}  // namespace runtime::overlay
