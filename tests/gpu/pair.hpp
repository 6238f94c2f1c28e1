// SPDX-License-Identifier: Apache-2.0
// tests/gpu/pair.hpp — two processes that talk over smcuda: modules as such (SidePair), or Contexts over any transport
// (ContextPair).  Each process has its own driver; meet() lets one wait for the other while both progress.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/btl/smcuda/module.hpp"
#include "tests/conformance/side.hpp"
#include "tests/gpu/program.hpp"

namespace opal::gpu_pair {

using namespace gpu::test;

inline constexpr Tag kMeet = kUserTags.first + 1;

/// One process's end: a smcuda module without a Context above it.
class SideEnd {
 public:
  explicit SideEnd(const opal::test::Channel& other, const btl::smcuda::Settings& settings = {})
      : side([&](const btl::ModuleParameters& parameters) -> Result<std::unique_ptr<btl::Module>> {
          OPAL_TRY_ASSIGN(auto module, btl::smcuda::Module::open(parameters, settings));
          return std::unique_ptr<btl::Module>{std::move(module)};
        }) {
    EXPECT_TRUE(side.handlers().set(kMeet, btl::bind<&SideEnd::on_meet>(*this, "meet")));
    other.send(ByteSpan{side.blob()});
    peer = side.connect(other.receive());
  }
  /// Waits until the other process is through as well: what a test asks of its endpoint goes with the peer.
  ~SideEnd() {
    if (leaves_at_once || peer == nullptr) return;
    ++met_;
    const auto said = [&] { return side.module().send_inline(*peer, kMeet, {}, {}) != Post::again; };
    EXPECT_TRUE(opal::test::pump(said, side));
    EXPECT_TRUE(opal::test::pump([&] { return heard_ >= met_ || peer->dead(); }, side));
  }
  SideEnd(const SideEnd&) = delete;
  SideEnd& operator=(const SideEnd&) = delete;

  [[nodiscard]] btl::smcuda::Module& module() { return static_cast<btl::smcuda::Module&>(side.module()); }
  [[nodiscard]] btl::smcuda::IpcState state() { return module().ipc_of(*peer).state; }

  /// Progresses until `condition`; fails the test otherwise.
  void until(const std::function<bool()>& condition) { ASSERT_TRUE(opal::test::pump(condition, side)); }
  /// Returns when the other process has called it as often, and everything sent before has arrived.
  void meet() {
    ++met_;
    until([&] { return side.module().send_inline(*peer, kMeet, {}, {}) != Post::again; });
    until([&] { return heard_ >= met_; });
  }
  /// Sends a message with a payload of any memory.
  void send(const void* payload, std::size_t size) {
    until([&] {
      auto fragment = side.module().prepare_src(*peer, {}, {static_cast<const std::byte*>(payload), size});
      return fragment && side.module().send(fragment, opal::test::kTag) != Post::again;
    });
  }
  /// Posts until it is not `again`, progresses until it is through; returns how it ended.
  Error finish(const std::function<Post(Completion&)>& post) {
    opal::test::CountedCompletion completion;
    Post answer = Post::again;
    until([&] { return (answer = post(completion)) != Post::again; });
    if (answer == Post::queued) {
      until([&] { return completion.calls != 0; });
      EXPECT_EQ(completion.calls, 1);
    }
    return answer == Post::done ? Error{} : completion.error;
  }
  Error get(void* to, std::uint64_t address, const MemoryHandle& handle, std::uint64_t size) {
    return finish([&](Completion& c) { return module().get(*peer, to, nullptr, address, handle, size, c); });
  }
  Error put(const void* from, std::uint64_t address, const MemoryHandle& handle, std::uint64_t size) {
    return finish([&](Completion& c) { return module().put(*peer, from, nullptr, address, handle, size, c); });
  }
  /// Both sides have agreed to map each other's memory.
  void connect_gpus(const void* buffer) {
    send(buffer, 8);
    until([&] { return peer->gpu_direct; });
    meet();
  }

  opal::test::Side side;
  btl::Endpoint* peer = nullptr;
  bool leaves_at_once = false;  ///< closes without waiting for the other process

 private:
  void on_meet(btl::Delivery&) noexcept { ++heard_; }
  int met_ = 0;
  int heard_ = 0;
};

/// A handle and an address, as one process sends them to the other.
struct Window {
  std::uint64_t address;
  std::uint64_t handle_size;
  std::array<std::byte, MemoryHandle::kMaxSize> handle;

  Window() = default;
  Window(const void* base, const MemoryHandle& made)
      : address(reinterpret_cast<std::uint64_t>(base)), handle_size(made.bytes().size()), handle{} {
    std::copy(made.bytes().begin(), made.bytes().end(), handle.begin());
  }
  [[nodiscard]] MemoryHandle memory() const {
    return *MemoryHandle::from_bytes({handle.data(), static_cast<std::size_t>(handle_size)});
  }
};

/// Descriptors of the double's memory; those of a real driver look like its others.
inline std::size_t open_files() {
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file.path(), gone).string();
    if (target.find("opal-cuda-double") != std::string::npos) ++count;
  }
  return count;
}

/// The side that registers a buffer for another process.
template <class Buffer>
struct Owner {
  std::function<std::unique_ptr<Buffer>()> make;  ///< the buffer, with at() and size()
  std::function<void(Control&)> driver = {};      ///< sets it up before the other process begins
  std::function<void(Buffer&)> afterwards = {};   ///< what became of the buffer
};
/// What the other process does with it: its end, the handle, the address.
using User = std::function<void(SideEnd& here, const MemoryHandle& handle, std::uint64_t address)>;

/// Both, over smcuda, after they have agreed to map each other's memory; nothing stays open with either.
template <class Buffer>
void owner_and_user(const Owner<Buffer>& owner, const User& user, const btl::smcuda::Settings& settings = {}) {
  in_two_processes(
      [&](const opal::test::Channel& other) {
        const CudaProgram program;
        const std::unique_ptr<Buffer> buffer = owner.make();
        SideEnd here{other};
        here.connect_gpus(buffer->at());
        const auto handle = here.module().register_memory(buffer->at(), buffer->size(), Rights::all);
        ASSERT_TRUE(handle) << to_string(handle.error());
        if (owner.driver) {
          ASSERT_NE(cuda_double::control(), nullptr);
          owner.driver(*cuda_double::control());
        }
        const std::size_t files = open_files();
        send(other, Window{buffer->at(), *handle});
        here.meet();
        EXPECT_EQ(open_files(), files) << "a descriptor keeps memory that is freed";
        if (owner.afterwards) owner.afterwards(*buffer);
        EXPECT_TRUE(here.module().deregister_memory(*handle));
        here.meet();
      },
      [&](const opal::test::Channel& other) {
        const CudaProgram program;
        {
          const DeviceBuffer buffer{64};
          SideEnd here{other, settings};
          here.connect_gpus(buffer.at());
          const auto window = receive<Window>(other);
          user(here, window.memory(), window.address);
          here.meet();
          here.meet();
        }
        if (const Control* const control = cuda_double::control()) {
          EXPECT_EQ(control->count(Count::opened), 0u) << "a mapping stayed";
          EXPECT_EQ(control->count(Count::events), 0u);
        }
      });
}

/// One process's end: a Context.
class ContextEnd {
 public:
  explicit ContextEnd(const opal::test::Channel& other, const std::string& transports,
                      const std::vector<std::pair<std::string, std::string>>& settings = {}) {
    config::Store store;
    store.set("am_transports", transports);
    for (const auto& [name, value] : settings) store.set(name, value);
    auto opened = am::Context::open(store, {.registry = &opal::test::all_transports()});
    EXPECT_TRUE(opened) << to_string(opened.error());
    context = std::move(*opened);
    EXPECT_TRUE(context->set_handler(kMeet, btl::bind<&ContextEnd::on_meet>(*this, "meet")));
    EXPECT_TRUE(context->set_handler(opal::test::kTag, btl::bind<&ContextEnd::on_message>(*this, "message")));
    other.send(context->address());
    const auto address = other.receive();
    auto connected = context->connect(address);
    EXPECT_TRUE(connected) << to_string(connected.error());
    peer = *connected;
  }

  template <class Condition>
  void until(Condition condition) {
    ASSERT_TRUE(context->wait_until(condition, std::chrono::milliseconds{60'000}));
  }
  void meet() {
    ++met_;
    ASSERT_EQ(peer->send_or_queue(kMeet, {}, {}), Post::done);
    until([&] { return heard_ >= met_; });
  }
  Error finish(const std::function<Post(Completion&)>& post) {
    opal::test::CountedCompletion completion;
    Post answer = Post::again;
    while ((answer = post(completion)) == Post::again) context->progress();
    if (answer == Post::queued) {
      until([&] { return completion.calls != 0; });
      EXPECT_EQ(completion.calls, 1);
    }
    return answer == Post::done ? Error{} : completion.error;
  }
  void send(const void* payload, std::size_t size) {
    Post post = Post::again;
    while ((post = peer->send_inline(opal::test::kTag, {}, {static_cast<const std::byte*>(payload), size})) ==
           Post::again) {
      context->progress();
    }
    EXPECT_EQ(post, Post::done) << to_string(peer->error());
  }

  std::unique_ptr<am::Context> context;
  am::Endpoint* peer = nullptr;
  std::vector<std::vector<std::byte>> received;

 private:
  void on_meet(btl::Delivery&) noexcept { ++heard_; }
  void on_message(btl::Delivery& delivery) noexcept {
    received.emplace_back(delivery.data.begin(), delivery.data.end());
  }
  int met_ = 0;
  int heard_ = 0;
};

}  // namespace opal::gpu_pair
