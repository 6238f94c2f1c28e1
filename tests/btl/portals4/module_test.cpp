// SPDX-License-Identifier: Apache-2.0
// The portals4 transport over the test double: what the conformance suite does not reach.
#include "opal/btl/portals4/module.hpp"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <memory>
#include <thread>

#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"

namespace opal::test {
namespace {

using ::testing::HasSubstr;

btl::portals4::Config config() {
  btl::portals4::Config config;
  config.library = OPAL_PORTALS4_DOUBLE_PATH;
  return config;
}

Side::Open opener(const btl::portals4::Config& config) {
  return [=](const btl::ModuleParameters& parameters) -> Result<std::unique_ptr<btl::Module>> {
    OPAL_TRY_ASSIGN(auto module, btl::portals4::Module::open(parameters, config));
    return std::unique_ptr<btl::Module>{std::move(module)};
  };
}

Error finish(const std::function<Post(Completion&)>& operation, Side& a, Side& b) {
  CountedCompletion completion;
  Post post = Post::again;
  EXPECT_TRUE(pump([&] { return (post = operation(completion)) != Post::again; }, a, b));
  if (post == Post::queued) {
    EXPECT_TRUE(pump([&] { return completion.calls == 1; }, a, b));
  }
  return completion.error;
}

TEST(Portals4Library, ALibraryThatIsNotThereIsRefusedWithItsName) {
  const auto refused = btl::portals4::Interface::open("libno_portals.so");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::not_supported);
  EXPECT_THAT(refused.error().where,
              ::testing::AllOf(HasSubstr("btl_portals4_library"), HasSubstr("libno_portals.so")));
}

TEST(Portals4Library, ALibraryThatIsNotTheOneOfTheHeaderIsRefused) {
  const auto refused = btl::portals4::Interface::open("libm.so.6");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().where, HasSubstr("test double"));
}

TEST(Portals4WakeUp, AnEventThatTheThreadTakesBetweenALookAndTheNextArmIsNotLost) {
  using namespace btl::portals4;  // NOLINT(google-build-using-namespace): of this test alone
  const auto interface = Interface::open(OPAL_PORTALS4_DOUBLE_PATH);
  ASSERT_TRUE(interface);
  const auto objects = Objects::create(**interface, 16, 16);
  ASSERT_TRUE(objects);
  const auto wake_up = WakeUp::create(**interface, *objects);
  ASSERT_TRUE(wake_up);
  EXPECT_TRUE((*wake_up)->arm());
  std::uint64_t word = 0;
  constexpr ptl_match_bits_t kNoSuchMemory = 77;  // the event tells so
  ASSERT_EQ((*interface)
                ->library()
                .get(objects->memory(), offset_of(&word), sizeof word, (*interface)->process(), objects->memory_entry(),
                     kNoSuchMemory, 0, &word),
            PTL_OK);
  pollfd readable{(*wake_up)->fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 20'000), 1);
  while ((*wake_up)->armed()) std::this_thread::yield();
  EXPECT_FALSE((*wake_up)->arm());
  WakeUp::Event event{};
  ASSERT_TRUE((*wake_up)->take(event));
  EXPECT_EQ(event.event.user_ptr, &word);
  EXPECT_TRUE((*wake_up)->arm());
  (*wake_up)->disarm();
}

TEST(Portals4WakeUp, AForkedChildDestroysTheOneInWhichTheParentsThreadWaits) {
  using namespace btl::portals4;  // NOLINT(google-build-using-namespace): of this test alone
  const auto interface = Interface::open(OPAL_PORTALS4_DOUBLE_PATH);
  ASSERT_TRUE(interface);
  const auto objects = Objects::create(**interface, 16, 16);
  ASSERT_TRUE(objects);
  auto wake_up = WakeUp::create(**interface, *objects);
  ASSERT_TRUE(wake_up);
  EXPECT_TRUE((*wake_up)->arm());
  (*wake_up)->disarm();  // the thread waits for the next arm() now
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    (*wake_up)->abandon();
    wake_up->reset();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Receive buffers for 32 messages, of peers that may have 64 each in flight.
btl::portals4::Config small() {
  btl::portals4::Config settings = config();
  settings.max_send = ByteSize{1000};
  settings.receive_memory = ByteSize{1};
  return settings;
}

TEST(Portals4Module, AReceiverWithoutRoomLosesNothingAndKeepsTheOrderOfEachPeer) {
  Side server{opener(small())};
  std::deque<Side> clients;
  std::vector<btl::Endpoint*> routes;
  for (int i = 0; i < 3; ++i) routes.push_back(clients.emplace_back(opener(small())).connect(server));
  std::vector<std::uint32_t> next(clients.size());
  std::vector<std::uint32_t> sent(clients.size());
  bool in_order = true;
  server.handler = [&](btl::Delivery& delivery) {
    std::uint32_t header[2] = {};
    ASSERT_TRUE(read_object(delivery.data, header));
    in_order = in_order && header[1] == next[header[0]]++;
  };
  constexpr std::uint32_t kMessages = 2'000;
  const auto payload = pattern(900, 1);
  // Without a limit of rounds: the double's own thread moves the messages, whenever it gets a core.
  for (int round = 0; next[0] + next[1] + next[2] < 3 * kMessages && server.failures.empty(); ++round) {
    for (std::uint32_t i = 0; i < clients.size(); ++i) {
      Post post = Post::done;
      while (sent[i] < kMessages && post == Post::done) {
        const std::uint32_t header[2] = {i, sent[i]};
        post = clients[i].module().send_inline(*routes[i], kTag, bytes_of(header), payload);
        if (post == Post::done) ++sent[i];
      }
      clients[i].module().progress(64);
    }
    if (round % 4 == 0) server.module().progress(64);  // the server falls behind, so its interface refuses messages
  }
  EXPECT_EQ(next, std::vector<std::uint32_t>(clients.size(), kMessages));
  EXPECT_TRUE(in_order);
  EXPECT_TRUE(server.failures.empty());
}

TEST(Portals4Module, AtomicsAreTheInterfacesOwnAndAgreeWithThoseOfTheHost) {
  Side a{opener(config())};
  Side b{opener(config())};
  btl::Endpoint* const route = a.connect(b);
  ASSERT_EQ(send(*route, pattern(8, 1), {}, a, b), Post::done);
  std::uint64_t word = 5;
  const MemoryHandle remote = *b.module().register_memory(&word, sizeof word, Rights::all);
  const auto update = [&](AtomicOp op, std::uint64_t operand, std::uint64_t compare, std::uint64_t& old) {
    const AtomicRequest request{op,  AtomicType::u64, reinterpret_cast<std::uint64_t>(&word), &remote, operand, compare,
                                &old};
    CountedCompletion done;
    Post post = Post::again;
    // b does not progress: the interface serves it.
    EXPECT_TRUE(pump([&] { return (post = a.module().atomic(*route, request, done)) != Post::again; }, a));
    EXPECT_TRUE(pump([&] { return done.calls == 1; }, a));
    return done.error.code;
  };
  ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
  std::uint64_t old = 0;
  EXPECT_EQ(update(AtomicOp::add, 3, 0, old), Errc{});
  EXPECT_EQ(old, 5U);
  EXPECT_EQ(update(AtomicOp::compare_swap, 100, 7, old), Errc{});
  EXPECT_EQ(old, 8U);
  EXPECT_EQ(update(AtomicOp::compare_swap, 100, 8, old), Errc{});
  EXPECT_EQ(update(AtomicOp::swap, 1, 0, old), Errc{});
  EXPECT_EQ(old, 100U);
  EXPECT_EQ(update(AtomicOp::bit_or, 6, 0, old), Errc{});
  EXPECT_EQ(word, 7U);
  EXPECT_TRUE(b.module().deregister_memory(remote));
}

TEST(Portals4Module, RegistrationsBeyondTheInterfacesLimitAreReachedByMessages) {
  ASSERT_EQ(::setenv("OPAL_PORTALS4_DOUBLE_MAX_ENTRIES", "20", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  Side a{opener(config())};
  Side b{opener(config())};                                      // both have 8 receive buffers
  ASSERT_EQ(::unsetenv("OPAL_PORTALS4_DOUBLE_MAX_ENTRIES"), 0);  // NOLINT(concurrency-mt-unsafe)
  btl::Endpoint* const route = a.connect(b);
  std::vector<std::vector<std::byte>> regions(10, std::vector<std::byte>(4096));
  for (std::uint32_t i = 0; i < regions.size(); ++i) {
    const auto remote = b.module().register_memory(regions[i].data(), regions[i].size(), Rights::all);
    ASSERT_TRUE(remote) << i;
    const auto source = pattern(4096, i);
    const auto put = [&](Completion& done) {
      return a.module().put(*route, source.data(), nullptr, reinterpret_cast<std::uint64_t>(regions[i].data()), *remote,
                            source.size(), done);
    };
    EXPECT_EQ(finish(put, a, b).code, Errc{});
    EXPECT_EQ(regions[i], source);
  }
}

TEST(Portals4Module, ALargePutGoesInPiecesAndARefusedOneIsRepeatedByMessages) {
  btl::portals4::Config settings = config();
  settings.max_request = 64_KiB;
  Side a{opener(settings)};
  Side b{opener(settings)};
  btl::Endpoint* const route = a.connect(b);
  const auto source = pattern(10'000'000, 3);
  std::vector<std::byte> region(source.size());
  const MemoryHandle remote = *b.module().register_memory(region.data(), region.size(), Rights::all);
  const auto put = [&](Completion& done) {
    return a.module().put(*route, source.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()), remote,
                          source.size(), done);
  };
  EXPECT_EQ(finish(put, a, b).code, Errc{});
  EXPECT_EQ(region, source);
  // The interface refuses the whole registration now, messages the part alone.
  const auto part = reinterpret_cast<std::uintptr_t>(region.data()) + 4096;
  b.module().invalidate_memory_part(remote, {part, part + 4096});
  b.module().progress(1);
  std::fill(region.begin(), region.end(), std::byte{});
  const auto put_to = [&](std::size_t offset) {
    return finish(
               [&](Completion& done) {
                 return a.module().put(*route, source.data(), nullptr,
                                       reinterpret_cast<std::uint64_t>(region.data() + offset), remote, 100, done);
               },
               a, b)
        .code;
  };
  EXPECT_EQ(put_to(0), Errc{});
  EXPECT_EQ(region[99], source[99]);
  EXPECT_NE(put_to(4096), Errc{});
  EXPECT_EQ(region[4096], std::byte{});
}

TEST(Portals4Module, EventsThatComeAfterADisconnectHasGivenUpFreeTheirPlaces) {
  Child child{[](Channel& parent) -> int {
    std::vector<std::byte> region(4096);
    Side side{opener(config())};
    const MemoryHandle handle = *side.module().register_memory(region.data(), region.size(), Rights::all);
    const auto address = reinterpret_cast<std::uint64_t>(region.data());
    parent.send(side.blob());
    parent.send({handle.bytes().begin(), handle.bytes().end()});
    parent.send({bytes_of(address).begin(), bytes_of(address).end()});
    for (;;) side.module().progress(64);
  }};
  Side a{opener(config())};
  Side b{opener(config())};
  btl::Endpoint* const stopped = a.connect(child.channel().receive());
  const MemoryHandle remote = *MemoryHandle::from_bytes(child.channel().receive());
  std::uint64_t address = 0;
  ASSERT_TRUE(read_object(child.channel().receive(), address));
  ASSERT_EQ(send(*stopped, pattern(8, 1), {}, a), Post::done);
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  const auto source = pattern(64, 1);
  std::vector<CountedCompletion> lost(btl::portals4::OneSided::kDepth);
  for (CountedCompletion& completion : lost) {
    ASSERT_EQ(a.module().put(*stopped, source.data(), nullptr, address, remote, source.size(), completion),
              Post::queued);
  }
  a.module().disconnect(*stopped);
  for (const CountedCompletion& completion : lost) EXPECT_EQ(completion.error.code, Errc::canceled);
  ASSERT_EQ(::kill(child.pid(), SIGCONT), 0);
  btl::Endpoint* const route = a.connect(b);
  std::vector<std::byte> region(64);
  const MemoryHandle own = *b.module().register_memory(region.data(), region.size(), Rights::all);
  const auto put = [&](Completion& done) {
    return a.module().put(*route, source.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()), own,
                          source.size(), done);
  };
  EXPECT_EQ(finish(put, a, b).code, Errc{});
  EXPECT_EQ(region, source);
}

TEST(Portals4Module, ReceiveBuffersThatAMessageStillArrivesInStayMapped) {
  static std::vector<void*> buffers;
  static decltype(&::PtlMEAppend) append = nullptr;
  const auto interface = btl::portals4::Interface::open(OPAL_PORTALS4_DOUBLE_PATH);
  ASSERT_TRUE(interface);
  // Not const where it was made: Interface::open().
  auto& library = const_cast<btl::portals4::Library&>((*interface)->library());  // NOLINT(*-const-cast)
  append = library.me_append;
  auto* const unlink = library.me_unlink;
  auto side = std::make_unique<Side>(Side::Open{[&](const btl::ModuleParameters& parameters) {
    library.me_append = [](ptl_handle_ni_t ni, ptl_pt_index_t index, const ptl_me_t* entry, ptl_list_t list,
                           void* user_ptr, ptl_handle_me_t* handle) {
      buffers.push_back(entry->start);
      return append(ni, index, entry, list, user_ptr, handle);
    };
    auto module = opener(config())(parameters);
    library.me_append = append;
    return module;
  }});
  library.me_unlink = [](ptl_handle_me_t) -> int { return PTL_IN_USE; };
  side.reset();
  library.me_unlink = unlink;
  ASSERT_FALSE(buffers.empty());
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(*std::min_element(buffers.begin(), buffers.end()), 1, &resident), 0) << "they are unmapped";
}

TEST(Portals4Module, TheDeathOfAPeerIsNoticedByTheInterface) {
  Child child{[](Channel& parent) -> int {
    Side side{opener(config())};
    parent.send(side.blob());
    for (;;) side.module().progress(64);
  }};
  btl::portals4::Config settings = config();
  settings.settings.watch_processes = false;
  settings.settings.ping_interval = std::chrono::milliseconds{20};
  Side side{opener(settings)};
  btl::Endpoint* const route = side.connect(child.channel().receive());
  ASSERT_EQ(send(*route, pattern(8, 1), {}, side), Post::done);
  child.kill();
  ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
  EXPECT_EQ(side.failures[0].endpoint, route);
  EXPECT_NE(side.failures[0].why.os_errno, 0) << "a failure, not a disconnect";
}

}  // namespace
}  // namespace opal::test
