// SPDX-License-Identifier: Apache-2.0
// Active messages and puts between the ranks of a job, without MPI.  Every rank puts its number into the middle of its
// right neighbour's memory, then a token goes once around the ring and collects what each rank found.
//   opalrun -n 4 ring
#include <cstdio>
#include <cstring>
#include <vector>

#include "opal/am/context.hpp"
#include "runtime/client/client.hpp"

namespace {

constexpr opal::Tag kToken = opal::kUserTags.first;
constexpr std::size_t kWords = 1 << 16;

/// What each rank publishes beside its address: where its memory is.  The key follows.
struct Place {
  std::uint64_t address;
};

struct Token {
  std::uint64_t visited;
  std::uint64_t sum;
};

struct Ring {
  opal::am::Endpoint* right = nullptr;
  std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(kWords);
  bool home = false;
  Token token{};

  void on_token(opal::btl::Delivery& delivery) noexcept { home = opal::read_object(delivery.data, token); }
  void pass_on() noexcept {
    ++token.visited;
    token.sum += memory[kWords / 2];
    (void)right->send_or_queue(kToken, opal::bytes_of(token), {});
  }
};

opal::Result<int> run() {
  OPAL_TRY_ASSIGN(const auto client, runtime::Client::open());
  const opal::config::Store store = opal::config::Store::from_environment();
  opal::am::Options options;
  OPAL_TRY_ASSIGN(options.secret, client->secret(store));  // only ranks of this job can connect
  OPAL_TRY_ASSIGN(const auto context, opal::am::Context::open(store, options));
  const unsigned rank = client->rank();
  const unsigned size = client->size();

  Ring ring;
  OPAL_TRY(context->set_handler(kToken, opal::btl::bind<&Ring::on_token>(ring, "token")));
  OPAL_TRY_ASSIGN(const opal::am::Region region,
                  context->register_memory(ring.memory.data(), kWords * sizeof(std::uint64_t), opal::Rights::all));

  // Publish the address and the memory key; fetch only the neighbour's.
  const Place mine{reinterpret_cast<std::uint64_t>(ring.memory.data())};
  std::vector<std::byte> place(sizeof mine + region.key().size());
  std::memcpy(place.data(), &mine, sizeof mine);
  std::memcpy(place.data() + sizeof mine, region.key().data(), region.key().size());
  OPAL_TRY(client->put(runtime::kAddressKey, context->address()));
  OPAL_TRY(client->put("ring.place", place));
  OPAL_TRY(client->commit());
  OPAL_TRY(client->fence());
  const unsigned neighbour = (rank + 1) % size;
  OPAL_TRY_ASSIGN(const auto address, client->get(neighbour, runtime::kAddressKey));
  OPAL_TRY_ASSIGN(ring.right, context->connect(address));
  OPAL_TRY_ASSIGN(const auto their_place, client->get(neighbour, "ring.place"));
  Place theirs{};
  if (!opal::read_object(opal::ByteSpan{their_place}, theirs)) {
    return opal::Error{opal::Errc::protocol, 0, "ring: the neighbour's place is garbled"};
  }
  OPAL_TRY_ASSIGN(const opal::MemoryHandle key,
                  ring.right->unpack_key(opal::ByteSpan{their_place}.subspan(sizeof theirs)));

  // One word into the middle of the neighbour's memory; complete means visible there.
  struct Flag : opal::Completion {
    bool ended = false;
  } flag;
  flag.fn = [](opal::Completion& self) noexcept { static_cast<Flag&>(self).ended = true; };
  const std::uint64_t number = rank + 1;
  const std::uint64_t middle = theirs.address + kWords / 2 * sizeof number;
  opal::Post post = opal::Post::again;
  while ((post = ring.right->put(&number, middle, key, sizeof number, flag)) == opal::Post::again) context->progress();
  while (post == opal::Post::queued && !flag.ended) context->wait(std::chrono::milliseconds{100});
  if (!flag.ok()) return flag.error;
  // All puts are complete before the token starts.  Emulated puts need their target's progress: keep making some.
  while (ring.memory[kWords / 2] == 0) context->wait(std::chrono::milliseconds{100});

  if (rank == 0) ring.pass_on();
  while (!ring.home) context->wait(std::chrono::milliseconds{100});
  bool right = true;
  if (rank == 0) {
    right = ring.token.visited == size && ring.token.sum == std::uint64_t{size} * (size + 1) / 2;
    std::printf("ring of %u ranks over %s: the token saw %llu ranks and a sum of %llu: %s\n", size,
                std::string{ring.right->attributes().transport}.c_str(),
                static_cast<unsigned long long>(ring.token.visited), static_cast<unsigned long long>(ring.token.sum),
                right ? "right" : "WRONG");
  } else {
    ring.pass_on();
  }
  // No rank leaves while a neighbour may still need an answer.
  OPAL_TRY(client->fence());
  OPAL_TRY(client->finalize());
  return right ? 0 : 1;
}

}  // namespace

int main() {
  auto status = run();
  if (!status) {
    std::fprintf(stderr, "ring: %s\n", to_string(status.error()).c_str());
    return 1;
  }
  return *status;
}
