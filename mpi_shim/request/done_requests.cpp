// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/request/done_requests.hpp"

#include <cstdlib>

#include "opal/core/log.hpp"

namespace mpi_shim {
namespace {

class Immediate final : public Request {
 public:
  explicit Immediate(int source) noexcept : Request(kActions, nullptr), source_(source) {}

 private:
  static const Actions kActions;

  void run() noexcept {
    begin();
    outcome_.source = source_;
    finish();
  }
  void put_away() noexcept {
    if (persistent()) retire();  // the shared ones are never destroyed
  }

  const int source_;
};

const Request::Actions Immediate::kActions{act<&Immediate::run>, act<&Immediate::put_away>};

Request& make_shared(int source) {
  auto made = handle::create<Immediate>(source);
  if (!made) opal::log::error("mpi", "no memory is left for a request"), std::abort();
  Immediate& request = *made->detach();
  request.start();
  return request;
}

}  // namespace

Request& done_send_request() noexcept {
  static Request& request = make_shared(MPI_ANY_SOURCE);
  return request;
}

int give_done_request(MPI_Request* request) noexcept {
  if (request != nullptr) *request = done_send_request().mpi_handle();
  return MPI_SUCCESS;
}

Request& no_proc_receive_request() noexcept {
  static Request& request = make_shared(MPI_PROC_NULL);
  return request;
}

Request* new_no_op_persistent_request(MPI_Comm comm, int source) {
  auto made = handle::create<Immediate>(source);
  if (!made) return nullptr;
  Immediate* const request = made->detach();
  request->set_persistent(comm);
  return request;
}

}  // namespace mpi_shim
