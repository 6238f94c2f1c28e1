// SPDX-License-Identifier: Apache-2.0
// tests/conformance/side.hpp — one end of a conversation: what a Context gives a module, opened for one transport, and
// a record of everything that happened.  Two Sides in one process, or one in each of two processes.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/registry.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/clock.hpp"
#include "tests/harness/transports.hpp"

namespace opal::test {

inline constexpr Tag kTag = kUserTags.first;

struct Failure {
  btl::Endpoint* endpoint;
  Error why;
};

/// A Completion that counts its calls, for tests that want exactly one.
struct CountedCompletion : Completion {
  CountedCompletion() {
    fn = [](Completion& self) noexcept { ++static_cast<CountedCompletion&>(self).calls; };
  }
  int calls = 0;
};

class Side final : public btl::Observer {
 public:
  using Open = std::function<Result<std::unique_ptr<btl::Module>>(const btl::ModuleParameters& parameters)>;

  /// An empty `store`: the environment's.
  explicit Side(const std::string& transport, const config::Store& store = {}, const Secret& secret = {});
  /// For a module with constants of its own.
  explicit Side(const Open& open, bool cores_shared = false, const Secret& secret = {});
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  [[nodiscard]] btl::Module& module() noexcept { return *module_; }
  [[nodiscard]] const PeerId& id() const noexcept { return id_; }
  [[nodiscard]] btl::HandlerTable& handlers() noexcept { return handlers_; }
  [[nodiscard]] btl::RegistrationTable& registrations() noexcept { return registrations_; }

  /// Connects to a side of this process; fails the test when that is refused.
  btl::Endpoint* connect(Side& peer);
  /// id and address in one blob, for a side of another process.
  [[nodiscard]] std::vector<std::byte> blob() const;
  btl::Endpoint* connect(ByteSpan blob);

  /// Records every message of kTag in `received` (the default); or calls `handler`.
  std::function<void(btl::Delivery&)> handler;
  std::vector<std::vector<std::byte>> received;
  std::vector<btl::Endpoint*> accepted;
  std::vector<Failure> failures;
  /// Called after they are recorded.
  std::function<void(btl::Endpoint&)> after_accepted;
  std::function<void(btl::Endpoint&)> after_failed;

  void on_accepted(btl::Endpoint& endpoint) noexcept override {
    accepted.push_back(&endpoint);
    if (after_accepted) after_accepted(endpoint);
  }
  void on_failed(btl::Endpoint& endpoint, const Error& why) noexcept override {
    failures.push_back({&endpoint, why});
    if (after_failed) after_failed(endpoint);
  }

 private:
  void on_message(btl::Delivery& delivery) noexcept;
  PeerId id_ = PeerId::random();
  btl::HandlerTable handlers_;
  btl::RegistrationTable registrations_;
  std::unique_ptr<btl::Module> module_;
};

/// Progresses all sides until `condition` or two minutes (a hang, not a slow day); returns whether it came true.
template <class... Sides>
[[nodiscard]] bool pump(const std::function<bool()>& condition, Sides&... sides) {
  const Deadline deadline = Deadline::after(std::chrono::seconds{120});
  while (!condition()) {
    (sides.module().progress(64), ...);
    if (deadline.expired()) return false;
  }
  return true;
}

/// `size` bytes that depend on `seed`, so that a mix-up shows.
std::vector<std::byte> pattern(std::size_t size, std::uint32_t seed);

/// Sends, progressing `sides` while the transport is busy.
template <class... Sides>
[[nodiscard]] Post send(btl::Endpoint& to, ByteSpan header, ByteSpan payload, Sides&... sides) {
  Post post = Post::again;
  (void)pump([&] { return (post = to.module().send_inline(to, kTag, header, payload)) != Post::again; }, sides...);
  return post;
}

inline std::vector<std::string> usable_transports() { return transports_reaching(btl::Reach::itself); }
/// Those that join two sides of one process.
inline std::vector<std::string> joining_transports() { return transports_reaching(btl::Reach::process); }
/// Those that join two processes.
inline std::vector<std::string> crossing_transports() { return transports_reaching(btl::Reach::others); }

/// A test over two connected sides; for `self` both names mean the one side that talks to itself.
class Conformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  [[nodiscard]] bool alone() const { return GetParam() == "self"; }
  Side& a() { return *a_; }
  Side& b() { return alone() ? *a_ : *b_; }
  btl::Endpoint& to_b() { return *to_b_; }  ///< from a to b
  /// The endpoint of b that leads to a; made on demand when a's first message has not arrived yet.
  btl::Endpoint& to_a();
  [[nodiscard]] bool pump_both(const std::function<bool()>& condition) {
    return alone() ? pump(condition, a()) : pump(condition, a(), b());
  }
  /// Posts until the answer is not `again`; for queued ones progresses until the completion ran.  Returns its error.
  Error finish(const std::function<Post(Completion&)>& post);
  [[nodiscard]] Post send_to_b(ByteSpan header, ByteSpan payload);

  std::unique_ptr<Side> a_;
  std::unique_ptr<Side> b_;
  btl::Endpoint* to_b_ = nullptr;
};

/// Runs a suite over every usable transport, or over those that join two sides.
#define OPAL_CONFORMANCE_SUITE(name, transports) \
  INSTANTIATE_TEST_SUITE_P(Over, name, ::testing::ValuesIn(transports()), [](const auto& info) { return info.param; })

}  // namespace opal::test
