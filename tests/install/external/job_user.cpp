// SPDX-License-Identifier: Apache-2.0
// A rank of a job: publishes its address, and prints its rank.
#include <cstdio>

#include "opal/am/context.hpp"
#include "runtime/client/client.hpp"

namespace {

opal::Result<void> run() {
  OPAL_TRY_ASSIGN(const auto client, runtime::Client::open());
  OPAL_TRY_ASSIGN(const auto context, opal::am::Context::open(opal::config::Store::from_environment()));
  OPAL_TRY(client->put(runtime::kAddressKey, context->address()));
  OPAL_TRY(client->commit());
  OPAL_TRY(client->fence());
  OPAL_TRY_ASSIGN(const auto address, client->get((client->rank() + 1) % client->size(), runtime::kAddressKey));
  OPAL_TRY(context->connect(address));
  OPAL_TRY(client->fence());
  std::printf("job_user: rank %u of %u is right\n", client->rank(), client->size());
  return client->finalize();
}

}  // namespace

int main() {
  const auto done = run();
  if (!done) std::fprintf(stderr, "job_user: %s\n", to_string(done.error()).c_str());
  return done ? 0 : 1;
}
