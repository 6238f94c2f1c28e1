// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/core/lane.hpp"

#include <fmt/format.h>

#include "mpi_shim/coll/scheduler.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim {

Result<void> Lane::open(All& all, p2p::Lanes& lanes, runtime::Client& client, const config::Store& store,
                        const Settings& settings) {
  std::unique_ptr<Lane> lane{new Lane{all, lanes, client}};
  am::Options options;
  options.threads = settings.threads ? am::ThreadLevel::multiple : am::ThreadLevel::single;
  options.observer = lane.get();
  options.secret = settings.secret;
  OPAL_TRY_ASSIGN(lane->context_, am::Context::open(store, options));
  OPAL_TRY_ASSIGN(lane->engine_,
                  p2p::Engine::open(*lane->context_, *lane, settings.messages, settings.waits.ranks_per_core > 1));
  lane->scheduler_ = std::make_unique<coll::Scheduler>(*lane->engine_, settings.collectives);
  OPAL_TRY_ASSIGN(lane->windows_, rma::Windows::open(*lane->engine_, settings.windows, settings.helper));
  lanes.join(*lane->engine_);
  all.push_back(std::move(lane));
  return {};
}

Lane::Lane(const All& all, p2p::Lanes& lanes, runtime::Client& client)
    : all_(all),
      lanes_(lanes),
      client_(client),
      address_key_(all.empty() ? std::string{runtime::kAddressKey}
                               : fmt::format("{}.{}", runtime::kAddressKey, all.size())),
      peers_(client.size()) {
  for (std::size_t i = 0; i < peers_.size(); ++i) peers_[i].process = static_cast<int>(i);
}

Lane::~Lane() = default;

Result<void> Lane::publish() { return client_.put(address_key_, context_->address()); }

Result<am::Endpoint*> Lane::connect(int process) {
  if (process == static_cast<int>(client_.rank())) return context_->connect(context_->address());
  OPAL_TRY_ASSIGN(const runtime::Client::Bytes address, client_.get(static_cast<unsigned>(process), address_key_));
  return context_->connect(address);
}

void Lane::on_peer_failed(int process, const Error& why) noexcept {
  log::debug("mpi", "process {} is gone: {}", process, to_string(why));
  if (windows_ != nullptr) windows_->peer_failed(peer(process));
}

void Lane::on_peer_failed(am::Endpoint& peer, const Error& why) noexcept {
  if (peer.upper == nullptr) return;
  auto& lost = *static_cast<p2p::Peer*>(peer.upper);
  engine_->peer_failed(lost, why);
  for (const auto& other : all_) {
    if (other.get() != this) other->engine().lost_elsewhere(other->peer(lost.process));
  }
}

}  // namespace mpi_shim
