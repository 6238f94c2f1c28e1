// SPDX-License-Identifier: Apache-2.0
// A job of the fault campaign without MPI: operations on the memory of the next rank, for what MPI's windows do not
// use. usage: campaign_one_sided atomics|spaces ROUNDS [abort]
//   atomics  fetch-and-add on a word that only this rank changes: each result is the number of the round
//   spaces   a put into the address space of the next rank, then a get of the same bytes
// A rank that meets a failure says "rank N survived" and ends; with "abort" its status is 3.  A rank that meets none
// says "rank N complete".
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "opal/am/context.hpp"
#include "runtime/client/client.hpp"

namespace {

constexpr std::size_t kWords = 100'000;
constexpr std::string_view kPlaceKey = "campaign.place";

struct Flag : opal::Completion {
  bool ended = false;
};

class Rank {
 public:
  Rank(runtime::Client& client, opal::am::Context& context) : client_(client), context_(context) {}

  opal::Result<void> connect(bool whole_space) {
    auto* const base = memory_.data();
    if (whole_space) {
      OPAL_TRY_ASSIGN(region_, context_.register_address_space(opal::Rights::all));
    } else {
      OPAL_TRY_ASSIGN(region_, context_.register_memory(base, kWords * sizeof *base, opal::Rights::all));
    }
    const opal::ByteSpan key = region_.key();
    const auto address = reinterpret_cast<std::uint64_t>(base);
    std::vector<std::byte> place(sizeof address + key.size());
    std::memcpy(place.data(), &address, sizeof address);
    std::memcpy(place.data() + sizeof address, key.data(), key.size());
    OPAL_TRY(client_.put(runtime::kAddressKey, context_.address()));
    OPAL_TRY(client_.put(kPlaceKey, place));
    OPAL_TRY(client_.commit());
    OPAL_TRY(client_.fence());
    const unsigned next = (client_.rank() + 1) % client_.size();
    OPAL_TRY_ASSIGN(const auto blob, client_.get(next, runtime::kAddressKey));
    OPAL_TRY_ASSIGN(next_, context_.connect(blob));
    OPAL_TRY_ASSIGN(const auto theirs, client_.get(next, kPlaceKey));
    (void)opal::read_object(opal::ByteSpan{theirs}, address_);
    OPAL_TRY_ASSIGN(key_, next_->unpack_key(opal::ByteSpan{theirs}.subspan(sizeof address_)));
    return {};
  }

  opal::Result<void> add(std::uint64_t round) {
    std::uint64_t before = ~std::uint64_t{0};
    const opal::AtomicRequest request{
        .op = opal::AtomicOp::add,
        .type = opal::AtomicType::u64,
        .remote_address = address_,
        .remote = &key_,
        .operand = 1,
        .result = &before,
    };
    OPAL_TRY(finish([&](Flag& flag) { return next_->atomic(request, flag); }));
    if (before != round) wrong(round);
    return {};
  }

  opal::Result<void> move(std::uint64_t round) {
    std::vector<std::uint64_t> out(kWords);
    std::vector<std::uint64_t> in(kWords);
    for (std::size_t i = 0; i < kWords; ++i) out[i] = (std::uint64_t{client_.rank()} << 40) + (round << 24) + i;
    const std::uint64_t size = kWords * sizeof out[0];
    OPAL_TRY(finish([&](Flag& flag) { return next_->put(out.data(), address_, key_, size, flag); }));
    OPAL_TRY(finish([&](Flag& flag) { return next_->get(in.data(), address_, key_, size, flag); }));
    if (in != out) wrong(round);
    return {};
  }

  /// The next rank may need this one until it has finished, too.
  opal::Result<void> leave() {
    OPAL_TRY(client_.fence_while([this] { context_.progress(); }));
    return client_.finalize();
  }

 private:
  template <class Posting>
  opal::Result<void> finish(Posting posting) {
    Flag flag;
    flag.fn = [](opal::Completion& self) noexcept { static_cast<Flag&>(self).ended = true; };
    opal::Post post = opal::Post::again;
    while ((post = posting(flag)) == opal::Post::again) context_.progress();
    while (post == opal::Post::queued && !flag.ended) context_.wait(std::chrono::milliseconds{100});
    if (!flag.ok()) return flag.error;
    return {};
  }

  void wrong(std::uint64_t round) const {
    std::printf("WRONG DATA: rank %u, round %llu\n", client_.rank(), static_cast<unsigned long long>(round));
    std::fflush(stdout);
    ::_exit(77);
  }

  runtime::Client& client_;
  opal::am::Context& context_;
  std::vector<std::uint64_t> memory_ = std::vector<std::uint64_t>(kWords);
  opal::am::Region region_;
  opal::am::Endpoint* next_ = nullptr;
  std::uint64_t address_ = 0;
  opal::MemoryHandle key_;
};

opal::Result<void> run_rounds(Rank& rank, std::string_view kind, std::uint64_t rounds) {
  OPAL_TRY(rank.connect(kind == "spaces"));
  for (std::uint64_t round = 0; round < rounds; ++round) {
    OPAL_TRY(kind == "spaces" ? rank.move(round) : rank.add(round));
  }
  return rank.leave();
}

opal::Result<void> run(std::string_view kind, std::uint64_t rounds, int status_of_failure) {
  OPAL_TRY_ASSIGN(const auto client, runtime::Client::open());
  const opal::config::Store store = opal::config::Store::from_environment();
  opal::am::Options options;
  OPAL_TRY_ASSIGN(options.secret, client->secret(store));
  OPAL_TRY_ASSIGN(const auto context, opal::am::Context::open(store, options));
  Rank rank{*client, *context};
  if (const auto done = run_rounds(rank, kind, rounds); !done) {
    std::printf("rank %u survived: %s\n", client->rank(), to_string(done.error()).c_str());
    std::fflush(stdout);
    ::_exit(status_of_failure);
  }
  std::printf("rank %u complete\n", client->rank());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto ran = run(argv[1], std::strtoull(argv[2], nullptr, 10), argc > 3 ? 3 : 0);
  if (!ran) std::fprintf(stderr, "campaign_one_sided: %s\n", to_string(ran.error()).c_str());
  return ran ? 0 : 1;
}
