// SPDX-License-Identifier: Apache-2.0
// The fail point's view of an RDMA transport: every queue pair that the process makes is known here, so that all of
// them can be cut.  libibverbs is the one that the product has loaded.
#include "tests/campaign/queue_pairs.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <array>
#include <atomic>

namespace {

std::array<std::atomic<ibv_qp*>, 256> pairs;

template <class Function>
Function* next(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void replace_one(ibv_qp* what, ibv_qp* with) noexcept {
  for (auto& pair : pairs) {
    ibv_qp* expected = what;
    if (pair.compare_exchange_strong(expected, with)) return;
  }
}

}  // namespace

extern "C" [[gnu::visibility("default")]] ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  ibv_qp* const made = next<ibv_qp*(ibv_pd*, ibv_qp_init_attr*)>("ibv_create_qp")(domain, attributes);
  if (made != nullptr) replace_one(nullptr, made);
  return made;
}

extern "C" [[gnu::visibility("default")]] int ibv_destroy_qp(ibv_qp* pair) {
  replace_one(pair, nullptr);
  return next<int(ibv_qp*)>("ibv_destroy_qp")(pair);
}

void cut_queue_pairs() noexcept {
  static const auto modify = next<int(ibv_qp*, ibv_qp_attr*, int)>("ibv_modify_qp");
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  for (auto& pair : pairs) {
    if (ibv_qp* const known = pair.load(); known != nullptr) modify(known, &attributes, IBV_QP_STATE);
  }
}
