// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/side.hpp"

#include <cstdio>
#include <cstdlib>

namespace opal::test {
namespace {

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "conformance: %s\n", to_string(result.error()).c_str());
    std::abort();
  }
  return std::move(result).value();
}

}  // namespace

Side::Side(const std::string& transport, const config::Store& store, const Secret& secret)
    : Side(
          [&](const btl::ModuleParameters& parameters) -> Result<std::unique_ptr<btl::Module>> {
            const config::Store& settings = store.settings().empty() ? config::Store::from_environment() : store;
            OPAL_TRY_ASSIGN(auto modules, all_transports().find(transport)->open(parameters, settings));
            return std::move(modules.front());
          },
          false, secret) {}

Side::Side(const Open& open, bool cores_shared, const Secret& secret)
    : registrations_(must(btl::RegistrationTable::create(1024))) {
  if (auto installed = btl::RdmaEmulation::install(handlers_); !installed) std::abort();
  if (auto set = handlers_.set(kTag, btl::bind<&Side::on_message>(*this, "test")); !set) std::abort();
  module_ = must(open({
      .id = id_,
      .handlers = handlers_,
      .registrations = registrations_,
      .observer = *this,
      .secret = secret,
      .cores_shared = cores_shared,
  }));
}

Side::~Side() = default;

void Side::on_message(btl::Delivery& delivery) noexcept {
  if (handler) {
    handler(delivery);
  } else {
    received.emplace_back(delivery.data.begin(), delivery.data.end());
  }
}

btl::Endpoint* Side::connect(Side& peer) { return must(module_->connect(peer.id(), peer.module().address())); }

std::vector<std::byte> Side::blob() const {
  std::vector<std::byte> blob(sizeof id_ + module_->address().size());
  std::memcpy(blob.data(), &id_, sizeof id_);
  std::memcpy(blob.data() + sizeof id_, module_->address().data(), module_->address().size());
  return blob;
}

btl::Endpoint* Side::connect(ByteSpan blob) {
  PeerId peer;
  if (!read_object(blob, peer)) std::abort();
  return must(module_->connect(peer, blob.subspan(sizeof peer)));
}

std::vector<std::byte> pattern(std::size_t size, std::uint32_t seed) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

void Conformance::SetUp() {
  a_ = std::make_unique<Side>(GetParam());
  if (!alone()) b_ = std::make_unique<Side>(GetParam());
  to_b_ = a().connect(b());
}

btl::Endpoint& Conformance::to_a() { return alone() ? *to_b_ : *b_->connect(*a_); }

Error Conformance::finish(const std::function<Post(Completion&)>& post) {
  CountedCompletion completion;
  Post answer = Post::again;
  EXPECT_TRUE(pump_both([&] { return (answer = post(completion)) != Post::again; }));
  if (answer == Post::queued) {
    EXPECT_TRUE(pump_both([&] { return completion.calls != 0; }));
    EXPECT_EQ(completion.calls, 1);
  } else {
    EXPECT_EQ(completion.calls, 0) << "only a queued operation calls its completion";
  }
  EXPECT_EQ(answer == Post::failed, answer == Post::failed && !completion.ok());
  return completion.error;
}

Post Conformance::send_to_b(ByteSpan header, ByteSpan payload) {
  return alone() ? send(to_b(), header, payload, a()) : send(to_b(), header, payload, a(), b());
}

}  // namespace opal::test
