// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/endpoint.hpp — one peer on the simulated fabric: a link there, and the link from there once it is known.
// Owned by its module.
#pragma once
#include <string>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/sim/node.hpp"

namespace opal::btl::sim {

class Endpoint final : public btl::Endpoint {
 public:
  Endpoint(btl::Module& module, const PeerId& peer, NodeId node) noexcept : btl::Endpoint(module, peer), node_(node) {}

  [[nodiscard]] bool one_sided() const noexcept override { return true; }
  [[nodiscard]] std::string describe() const override { return "simulated device " + std::to_string(node_); }

 private:
  friend class Module;
  const NodeId node_;
  Link* out_ = nullptr;  // ours; set right after construction
  Link* in_ = nullptr;   // the peer's, once its connect or accept has come
};

}  // namespace opal::btl::sim
