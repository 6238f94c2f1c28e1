// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/job/vci.hpp"

#include <fmt/format.h>

#include "mpi_shim/coll/schedule.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim {

Result<void> Vci::open(All& all, p2p::Vcis& vcis, runtime::Client& client, const config::Store& store,
                       const Settings& settings) {
  std::unique_ptr<Vci> vci{new Vci{all, vcis, client}};
  am::Options options;
  options.threads = settings.threads ? am::ThreadLevel::multiple : am::ThreadLevel::single;
  options.observer = vci.get();
  options.secret = settings.secret;
  OPAL_TRY_ASSIGN(vci->context_, am::Context::open(store, options));
  OPAL_TRY_ASSIGN(vci->engine_,
                  p2p::Engine::open(*vci->context_, *vci, settings.messages, settings.waits.ranks_per_core > 1));
  vci->scheduler_ = std::make_unique<coll::Scheduler>(*vci->engine_, settings.collectives);
  OPAL_TRY_ASSIGN(vci->windows_, rma::Windows::open(*vci->engine_, settings.windows, settings.helper));
  vcis.join(*vci->engine_);
  all.push_back(std::move(vci));
  return {};
}

Vci::Vci(const All& all, p2p::Vcis& vcis, runtime::Client& client)
    : all_(all),
      vcis_(vcis),
      client_(client),
      address_key_(all.empty() ? std::string{runtime::kAddressKey}
                               : fmt::format("{}.{}", runtime::kAddressKey, all.size())),
      peers_(client.size()) {
  for (std::size_t i = 0; i < peers_.size(); ++i) peers_[i].process = static_cast<int>(i);
}

Vci::~Vci() = default;

Result<void> Vci::publish() { return client_.put(address_key_, context_->address()); }

Result<am::Endpoint*> Vci::connect(int process) {
  if (process == static_cast<int>(client_.rank())) return context_->connect(context_->address());
  OPAL_TRY_ASSIGN(const runtime::Client::Bytes address, client_.get(static_cast<unsigned>(process), address_key_));
  return context_->connect(address);
}

void Vci::on_peer_failed(int process, const Error& why) noexcept {
  log::debug("mpi", "process {} is gone: {}", process, to_string(why));
  if (windows_ != nullptr) windows_->peer_failed(peer(process));
}

void Vci::on_peer_failed(am::Endpoint& peer, const Error& why) noexcept {
  if (peer.upper == nullptr) return;
  auto& lost = *static_cast<p2p::Peer*>(peer.upper);
  engine_->peer_failed(lost, why);
  for (const auto& other : all_) {
    if (other.get() != this) other->engine().lost_elsewhere(other->peer(lost.process));
  }
}

}  // namespace mpi_shim
