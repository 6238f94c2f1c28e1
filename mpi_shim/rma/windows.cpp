// SPDX-License-Identifier: Apache-2.0
// Handlers of the messages of peers for windows, and the helper thread.  Each message is checked before it has an
// effect.
#include "mpi_shim/rma/windows.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>

#include "mpi_shim/base/library_thread.hpp"
#include "mpi_shim/rma/window.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::rma {
namespace {

using namespace std::chrono_literals;

// Sleep of the helper between its rounds, which bounds the delay of an access: after work, and the longest.
constexpr std::chrono::microseconds kShortestNap = 50us;
constexpr std::chrono::microseconds kLongestNap = 1000us;

/// The helper thread.
void help(p2p::Engine& engine, const std::stop_token& end) noexcept {
  is_library_thread = true;
  std::chrono::microseconds nap = kShortestNap;
  std::mutex mutex;  // no other thread takes it
  std::condition_variable_any napping;
  std::unique_lock lock{mutex};
  while (!end.stop_requested()) {
    bool served = false;
    // During a checkpoint progress() calls Halt::wait(), which is for the application's threads; glance() does not.
    while ((engine.is_halted() ? engine.glance() : engine.progress()) != 0) served = true;
    nap = served ? kShortestNap : std::min(2 * nap, kLongestNap);
    napping.wait_for(lock, end, nap, [] { return false; });
  }
}

}  // namespace

Result<std::unique_ptr<Windows>> Windows::open(p2p::Engine& engine, const Config& config, bool helper) {
  std::unique_ptr<Windows> windows{new Windows{engine, config, helper}};
  OPAL_TRY(windows->install());
  return windows;
}

Result<void> Windows::install() {
  am::Context& context = engine_.context();
  for (const Tag tag : {wire::kPost, wire::kComplete, wire::kGranted, wire::kUnlocked, wire::kRefused}) {
    OPAL_TRY(context.set_handler(tag, btl::bind<&Windows::on_signal>(*this, "mpi window signal")));
  }
  for (const Tag tag : {wire::kLock, wire::kUnlock}) {
    OPAL_TRY(context.set_handler(tag, btl::bind<&Windows::on_lock>(*this, "mpi window lock")));
  }
  OPAL_TRY(context.set_handler(wire::kAccess, btl::bind<&Windows::on_access>(*this, "mpi window access")));
  return context.set_handler(wire::kAccessReply, btl::bind<&Windows::on_access_reply>(*this, "mpi window reply"));
}

Windows::~Windows() {
  for (Tag tag = wire::kFirst; tag <= wire::kLast; ++tag) engine_.context().clear_handler(tag);
}

void Windows::want_helper() {
  const am::Lock::Guard guard{engine_.lock()};  // several threads may create windows at the same time
  if (!may_help_ || helper_.joinable()) return;
  // The helper blocks all signals, so that the application's signal handlers run in the application's threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    helper_ = std::jthread{[this](const std::stop_token& end) { help(engine_, end); }};
  } catch (const std::system_error& error) {
    log::once(log::Level::warn, "no window helper", "mpi",
              "no thread for accesses to windows ({}): they wait until this process is in an MPI call", error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Windows::add(Window& window) {
  const am::Lock::Guard guard{engine_.lock()};
  const std::uint32_t id = window.comm().id();
  if (windows_.size() <= id) windows_.resize(id + std::size_t{1});
  windows_[id] = &window;
}

void Windows::remove(Window& window) noexcept {
  const am::Lock::Guard guard{engine_.lock()};
  windows_[window.comm().id()] = nullptr;
  // What still waits is for failed processes.
  for (Window::Retry* const retry : {&window.grant_again_, &window.serve_again_}) {
    engine_.stop_waiting_for_transport(*retry);
  }
  if (std::erase(attended_, &window) != 0 && attended_.empty()) engine_.set_polling_observer(nullptr);
}

void Windows::attend(Window& window) {
  attended_.push_back(&window);
  engine_.set_polling_observer(this);
}

void Windows::set_attention(Attention::State state) noexcept {
  for (Window* window : attended_) window->own().control->attention.set(state);
}

void Windows::on_polling_end() noexcept {
  set_attention(Attention::State::computes);
  opal::full_fence();  // see target/attention.hpp
  const auto has_messages = [](Window* window) { return window->has_counted_messages(); };
  if (std::ranges::none_of(attended_, has_messages)) [[likely]]
    return;
  const opal::Deadline end = opal::Deadline::after(kLongestAttention);
  while (std::ranges::any_of(attended_, has_messages) && !end.expired()) engine_.progress();
}

Window* Windows::find(const btl::Delivery& delivery, std::uint32_t id, std::int32_t rank) noexcept {
  Window* const window = id < windows_.size() ? windows_[id] : nullptr;
  if (window == nullptr || rank < 0 || rank >= window->size()) return nullptr;
  return engine_.recognise(*window->target(rank).peer, am::sender(delivery)) ? window : nullptr;
}

void Windows::on_signal(btl::Delivery& delivery) noexcept {
  wire::Signal signal{};
  if (!read_object(delivery.data, signal)) return refuse(delivery, "it is too short");
  Window* const window = find(delivery, signal.window, signal.rank);
  if (window == nullptr) return refuse(delivery, "no such window with the sender in it");
  Target& target = window->target(signal.rank);
  switch (delivery.tag) {
    case wire::kPost: target.posts.fetch_add(1, std::memory_order_release); break;
    case wire::kComplete: target.completions.fetch_add(1, std::memory_order_release); break;
    case wire::kRefused: target.refused.store(true, std::memory_order_release); break;
    case wire::kGranted: target.granted.store(true, std::memory_order_release); break;
    default:
      if (target.unlocking.load(std::memory_order_relaxed) == 0) return refuse(delivery, "no unlock awaits an answer");
      target.unlocking.fetch_sub(1, std::memory_order_release);
  }
}

void Windows::on_lock(btl::Delivery& delivery) noexcept {
  wire::LockRequest request{};
  if (!read_object(delivery.data, request)) return refuse(delivery, "it is too short");
  Window* const window = find(delivery, request.window, request.rank);
  if (window == nullptr) return refuse(delivery, "no such window with the sender in it");
  const bool exclusive = request.exclusive != 0;
  if (delivery.tag == wire::kLock) {
    if (!window->on_lock(request.rank, exclusive)) refuse(delivery, "the sender has or awaits the lock already");
  } else if (!window->on_unlock(request.rank, exclusive)) {
    refuse(delivery, "the sender does not hold the lock");
  }
}

void Windows::on_access(btl::Delivery& delivery) noexcept {
  wire::AccessHeader header{};
  if (!read_object(delivery.data, header)) return refuse(delivery, "it is too short");
  Window* const window = find(delivery, header.window, header.rank);
  if (window == nullptr) return refuse(delivery, "no such window with the sender in it");
  window->on_access(am::sender(delivery), header, delivery.data.subspan(sizeof header));
}

void Windows::on_access_reply(btl::Delivery& delivery) noexcept {
  wire::AccessReply reply{};
  if (!read_object(delivery.data, reply)) return refuse(delivery, "it is too short");
  MessageAccess* const access = under_way_.find(reply.id);
  if (access == nullptr || !access->is_to(am::sender(delivery))) return refuse(delivery, "no such access");
  access->on_reply(reply, delivery.data.subspan(sizeof reply));
}

void Windows::peer_failed(p2p::Peer& peer) noexcept {
  under_way_.for_each([&](MessageAccess& access) {
    if (access.target().peer == &peer) access.fail(MPI_ERR_PROC_ABORTED);
  });
  for (Window* window : windows_) {
    if (window == nullptr) continue;
    for (int rank = 0; rank < window->size(); ++rank) {
      if (window->target(rank).peer == &peer) window->on_rank_failed(rank);
    }
  }
}

void Windows::refuse(const btl::Delivery& delivery, const char* why) noexcept {
  log::error("mpi", "window message with active-message tag {:#x} of {} bytes from peer {} dropped: {}", delivery.tag,
             delivery.data.size(), to_string(delivery.from.peer()), why);
}

}  // namespace mpi_shim::rma
