// SPDX-License-Identifier: Apache-2.0
// A connection: the connector sends Hello, the acceptor Welcome; both prove that they know the job's secret.  Then each
// packet is one message.  If two sides connect at once, the connection of the lower PeerId stays.  A connection of a
// peer that still has an endpoint here waits until that one has ended.
#include "unix_transport.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <optional>

#include "opal/btl/shared/connected_transport.hpp"
#include "opal/core/system/fd.hpp"
#include "unix_wire.hpp"

namespace example {
namespace {

using namespace opal;  // NOLINT(google-build-using-namespace): the names of one library, in one source

constexpr std::size_t kMaxSend = 32 << 10;  // the kernel keeps a packet in one piece
constexpr std::size_t kMostWaiting = 256;   // connections without an endpoint

struct Config {
  ByteSize send_buffer = 256_KiB;
};
constexpr config::Var<Config> kVars[] = {
    {"send_buffer",
     &Config::send_buffer,
     config::Level::tuner,
     "Bytes that the kernel keeps of what a connection has sent, if net.core.wmem_max allows it.",
     {.min = 2 * kMaxSend, .max = 64_MiB}},
};
constexpr config::Group<Config> kGroup{"btl_unix", "AF_UNIX transport", kVars};

class Endpoint final : public btl::Endpoint {
 public:
  Endpoint(btl::Module& module, const PeerId& peer, Fd socket) : btl::Endpoint(module, peer), fd(std::move(socket)) {}
  [[nodiscard]] std::string describe() const override { return open ? "AF_UNIX socket" : "AF_UNIX socket, connecting"; }
  using btl::Endpoint::mark_dead;
  Fd fd;
  bool open = false;     // Welcome was exchanged
  bool blocked = false;  // a post met back-pressure; epoll reports when there is room
  Proof expected{};      // in Welcome
};

/// A connection that has no endpoint yet.
struct Incoming {
  Fd fd;
  std::optional<Hello> hello;
};

class Module final : public btl::ConnectedTransport<Endpoint> {
 public:
  static Result<btl::Modules> open(const btl::ModuleParameters& parameters, const config::Store& store) {
    OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
    std::unique_ptr<Module> module{new Module{parameters, config}};
    const SocketName name{module->address_.name};
    module->epoll_ = Fd{::epoll_create1(EPOLL_CLOEXEC)};
    module->listener_ = new_socket();
    if (!module->epoll_ || !module->listener_ || ::bind(module->listener_.get(), name.get(), name.kSize) != 0 ||
        ::listen(module->listener_.get(), SOMAXCONN) != 0) {
      return Error{Errc::os, errno, "listen(unix)"};
    }
    module->watch(EPOLL_CTL_ADD, module->listener_, EPOLLIN, nullptr);
    return btl::only(Result{std::move(module)});
  }
  ~Module() override {
    listener_.reset();
    incoming_.clear();  // no connection is accepted any more
    end_all();
  }

  [[nodiscard]] ByteSpan address() const noexcept override { return bytes_of(address_); }

  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override {
    Address to{};
    if (address.size() != sizeof to || !read_object(address, to) || to.magic != kMagic || to.id != peer) {
      return Error{Errc::protocol, 0, "unix address: not one of this peer", address.size()};
    }
    if (peer == parameters().id) return Error{Errc::unreachable, 0, "unix: does not connect a process to itself"};
    if (Endpoint* const known = find(peer); known != nullptr) {
      if (!known->dead()) return known;
      fail(*known, known->error());  // a send failed; what the peer sent before is given up
    }
    const SocketName name{to.name};
    Fd fd = new_socket();
    set_buffer(fd);
    if (!fd || ::connect(fd.get(), name.get(), name.kSize) != 0) {
      return Error{Errc::unreachable, errno, "connect(unix)"};
    }
    const Secret key = key_of(parameters().secret, to.name);
    Hello hello{parameters().id, fresh_nonce(), {}};
    hello.proof = hello_proof(key, hello);
    if (!send_packet(fd, bytes_of(hello), {}, {})) return Error{Errc::unreachable, errno, "unix: send of Hello"};
    Endpoint& endpoint = add(std::make_unique<Endpoint>(*this, peer, std::move(fd)));
    endpoint.expected = welcome_proof(key, hello);
    watch(EPOLL_CTL_ADD, endpoint.fd, EPOLLIN, &endpoint);
    return &endpoint;
  }

  Post send_inline(btl::Endpoint& peer, Tag tag, ByteSpan header, ByteSpan payload) noexcept override {
    auto& to = static_cast<Endpoint&>(peer);
    if (!accepts(to, header.size() + payload.size())) return Post::failed;
    if (!to.open) return Post::again;
    if (send_packet(to.fd, bytes_of(Frame{tag, {}}), header, payload)) return Post::done;
    if (errno != EAGAIN && errno != ENOBUFS) {
      to.mark_dead({Errc::peer_gone, errno, "unix: send"});
      ::shutdown(to.fd.get(), SHUT_RDWR);  // receive() delivers what the peer sent, and then finds the end
      return Post::failed;
    }
    if (!std::exchange(to.blocked, true)) watch(EPOLL_CTL_MOD, to.fd, EPOLLIN | EPOLLOUT, &to);
    return Post::again;
  }

  [[nodiscard]] int wait_fd() const noexcept override { return epoll_.get(); }

 private:
  Module(const btl::ModuleParameters& parameters, const Config& config)
      : ConnectedTransport(parameters,
                           {.transport = "unix", .max_send = kMaxSend, .eager = 8 << 10, .latency_ns = 5000}),
        config_(config),
        address_{kMagic, parameters.id, fresh_nonce()} {}

  static Fd new_socket() { return Fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)}; }

  void set_buffer(const Fd& fd) noexcept {
    const int size = static_cast<int>(config_.send_buffer.bytes);
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);  // the kernel may give less
  }

  static bool send_packet(const Fd& fd, ByteSpan first, ByteSpan second, ByteSpan third) noexcept {
    const auto part = [](ByteSpan bytes) { return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()}; };
    iovec parts[] = {part(first), part(second), part(third)};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = std::size(parts);
    return ::sendmsg(fd.get(), &message, MSG_NOSIGNAL) >= 0;
  }

  void watch(int operation, const Fd& fd, std::uint32_t events, Endpoint* endpoint) noexcept {
    epoll_event event{events, {endpoint}};  // null: the listener, or a connection without an endpoint
    (void)::epoll_ctl(epoll_.get(), operation, fd.get(), &event);
  }

  std::size_t receive(std::size_t budget) noexcept override {
    std::array<epoll_event, 32> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
    std::size_t done = 0;
    for (int i = 0; i < count; ++i) {  // what is left keeps epoll readable
      auto* const from = static_cast<Endpoint*>(events[i].data.ptr);
      done +=
          from != nullptr ? receive_from(*from, events[i].events, std::max(budget, done + 1) - done) : take_incoming();
    }
    return done;
  }

  std::size_t receive_from(Endpoint& from, std::uint32_t events, std::size_t budget) noexcept {
    std::size_t done = 0;
    if ((events & EPOLLOUT) != 0 && std::exchange(from.blocked, false)) {
      watch(EPOLL_CTL_MOD, from.fd, EPOLLIN, &from);
      ++done;
    }
    while (done < budget && from.fd) {
      const ssize_t got = ::recv(from.fd.get(), buffer_.data(), buffer_.size(), MSG_TRUNC);
      if (got < 0 && errno == EAGAIN) break;
      if (got < 0 && (errno == ECONNRESET || errno == EINTR)) continue;  // packets sent before a reset follow it
      ++done;
      if (got <= 0) {
        fail(from, {Errc::peer_gone, got == 0 ? 0 : errno, "unix: the peer has closed the connection"});
      } else if (!deliver(from, static_cast<std::size_t>(got))) {
        fail(from, {Errc::protocol, 0, "unix: not a packet of this transport", static_cast<std::uint64_t>(got)});
      }
    }
    return done;
  }

  /// False: the packet breaks the protocol.
  bool deliver(Endpoint& from, std::size_t size) noexcept {
    if (size > buffer_.size()) return false;
    const ByteSpan packet = ByteSpan{buffer_}.first(size);
    if (!from.open) {
      Welcome welcome{};
      from.open = size == sizeof welcome && read_object(packet, welcome) && same(welcome.proof, from.expected);
      return from.open;
    }
    Frame frame{};
    if (!read_object(packet, frame) || !is_tag(frame.tag)) return false;
    btl::Delivery delivery{from, frame.tag, packet.subspan(sizeof frame)};
    parameters().handlers.dispatch(delivery);
    return true;
  }

  /// Looks at the listener and at each connection without an endpoint.
  std::size_t take_incoming() noexcept {
    while (incoming_.size() < kMostWaiting) {
      Fd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
      if (!fd) break;
      set_buffer(fd);
      watch(EPOLL_CTL_ADD, fd, EPOLLIN, nullptr);
      incoming_.push_back({std::move(fd), {}});
    }
    if (incoming_.size() == kMostWaiting) incoming_.erase(incoming_.begin());  // silent for the longest time
    return std::erase_if(incoming_, [this](Incoming& one) { return settle(one); });
  }

  /// True: the connection is done with; it is refused, or an endpoint has it.
  bool settle(Incoming& one) noexcept {
    Hello hello{};
    const ssize_t got = ::recv(one.fd.get(), &hello, sizeof hello, MSG_TRUNC);
    if (got >= 0 || errno != EAGAIN) {
      const bool genuine =
          got == sizeof hello && same(hello.proof, hello_proof(key_, hello)) && hello.from != parameters().id;
      if (one.hello || !genuine) return true;
      one.hello = hello;
    }
    if (!one.hello) return false;
    const PeerId peer = one.hello->from;
    Endpoint* known = find(peer);
    const bool crossing = known != nullptr && !known->open && !known->dead() && peer < parameters().id;
    if (!vacant(peer) && !crossing) return false;
    const Welcome welcome{welcome_proof(key_, *one.hello)};
    if (!send_packet(one.fd, bytes_of(welcome), {}, {})) return true;
    std::unique_ptr<Endpoint> created;
    if (!crossing) created = std::make_unique<Endpoint>(*this, peer, Fd{});
    if (!crossing) known = created.get();
    known->fd = std::move(one.fd);
    known->open = true;
    watch(EPOLL_CTL_MOD, known->fd, EPOLLIN, known);
    if (!crossing) accept(std::move(created));
    return true;
  }

  void fail(Endpoint& endpoint, const Error& why) noexcept {
    endpoint.mark_dead(why);
    endpoint.fd.reset();
    end(endpoint);
  }

  bool arm_wake_up() noexcept override {
    pollfd fd{epoll_.get(), POLLIN, 0};  // epoll reports levels: it is always armed
    return ::poll(&fd, 1, 0) == 0;
  }

  bool leave(Endpoint& endpoint, const Error& why) noexcept override {
    endpoint.mark_dead(why);
    endpoint.fd.reset();  // the kernel keeps what was sent for the peer
    return false;
  }

  void on_vacant(const PeerId& /*peer*/) noexcept override { (void)take_incoming(); }

  void close_in_child() noexcept override {
    for (const auto& [peer, endpoint] : living()) endpoint->fd.reset();
    incoming_.clear();
    listener_.reset();
    epoll_.reset();
  }

  Fd epoll_;
  Fd listener_;
  std::vector<Incoming> incoming_;
  const Config config_;
  const Address address_;
  const Secret key_ = key_of(parameters().secret, address_.name);
  alignas(8) std::array<std::byte, sizeof(Frame) + kMaxSend> buffer_;  // one received packet
};

}  // namespace

constinit const btl::Component kUnixComponent{
    .name = "unix",
    .summary = "Messages between processes of one host through AF_UNIX sockets",
    .exclusivity = 90,
    .vars = &kGroup,
    .open = &Module::open};

}  // namespace example
