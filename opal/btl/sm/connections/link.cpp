// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/connections/link.hpp"

#include <fcntl.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "opal/btl/sm/single_copy/cma.hpp"
#include "opal/core/system/random.hpp"
#include "opal/mpool/shared_pool.hpp"

namespace opal::btl::sm {
namespace {

constexpr std::uint32_t kLargestMaxSend = 1U << 24;

/// Checks that the descriptor is a non-blocking eventfd, since senders write to it.
Result<void> check_doorbell(int fd) {
  std::error_code error;
  if (std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error) != "anon_inode:[eventfd]") {
    return Error{Errc::protocol, 0, "sm doorbell: not an eventfd"};
  }
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) == 0) return Error{Errc::protocol, 0, "sm doorbell: it could block"};
  return {};
}

}  // namespace

KernelDevices KernelDevices::open(const MechanismOrder& order) {
  const Error unwanted{Errc::not_supported, 0, "not in btl_sm_single_copy"};
  return {order.has(MechanismKind::xpmem) ? XpmemDevice::open() : Xpmem{unwanted},
          order.has(MechanismKind::knem) ? KnemDevice::open() : Knem{unwanted}};
}

LocalSide::LocalSide(const Config& config, const PeerId& self, int inbox_fd, RegistrationTable& registrations,
                     int doorbell_fd, MechanismOrder order, KernelDevices devices, bool fences)
    : config_(config),
      self_(self),
      inbox_fd_(inbox_fd),
      registrations_(registrations),
      doorbell_fd_(doorbell_fd),
      order_(std::move(order)),
      fences_(fences),
      probe_seed_(random_u64()),
      probe_(probe_page(probe_seed_)),
      xpmem_(std::move(devices.xpmem)),
      knem_(devices.knem
                ? Result<std::unique_ptr<KnemRegions>>{std::make_unique<KnemRegions>(*devices.knem, registrations)}
                : devices.knem.error()) {
  if (!xpmem_) return;
  if (const auto segment = (*xpmem_)->make()) {
    xpmem_segment_ = *segment;
  } else {
    xpmem_ = segment.error();
  }
}

LocalSide::~LocalSide() {
  if (xpmem_segment_ != 0) (*xpmem_)->remove(xpmem_segment_);
}

Result<std::unique_ptr<Link>> LocalSide::prepare(const PeerId& peer, std::uint32_t index) const {
  auto link = std::make_unique<Link>();
  link->peer = peer;
  link->index = index;
  OPAL_TRY_ASSIGN(link->out, OutSegment::create(config_, self_, peer));
  return link;
}

Hello LocalSide::plain(HelloKind kind, const PeerId& to, Errc refusal) const noexcept {
  Hello hello;
  hello.kind = kind;
  hello.refusal = static_cast<std::uint32_t>(refusal);
  hello.from = self_;
  hello.to = to;
  return hello;
}

Result<void> LocalSide::introduce(int socket, HelloKind kind, const Link& link) const {
  Hello hello = plain(kind, link.peer);
  hello.your_index = link.index;
  hello.max_send = static_cast<std::uint32_t>(config_.max_send.bytes);
  hello.fences = fences_ ? 1 : 0;
  hello.extensions = extensions_;
  hello.probe_address = reinterpret_cast<std::uint64_t>(probe_.data());
  hello.probe_seed = probe_seed_;
  hello.xpmem_segment = xpmem_segment_;
  if (knem_) hello.knem_cookie = (*knem_)->cookie_of_page(hello.probe_address, probe_.size());
  const std::array fds{inbox_fd_, link.out->fd(), registrations_.fd(), doorbell_fd_};
  return send_hello(socket, hello, fds);
}

Result<void> LocalSide::complete(Link& link, int pid, ReceivedHello& received) const {
  const Hello& hello = received.hello;
  if (hello.to != self_) return Error{Errc::protocol, 0, "sm hello: meant for another process"};
  if (hello.from != link.peer) return Error{Errc::protocol, 0, "sm hello: from another process"};
  if (hello.your_index >= wire::kMaxPeers) return Error{Errc::protocol, 0, "sm hello: index", hello.your_index};
  if (hello.max_send == 0 || hello.max_send > kLargestMaxSend) {
    return Error{Errc::protocol, 0, "sm hello: largest message", hello.max_send};
  }
  link.index_there = hello.your_index;
  link.peer_max_send = hello.max_send;
  link.fences_paid = fences_ && hello.fences == 1;
  link.extensions = hello.extensions;
  OPAL_TRY_ASSIGN(link.in, InSegment::attach(received.fds.segment.get(), link.peer, self_));
  OPAL_TRY_ASSIGN(link.inbox, PeerInbox::attach(received.fds.inbox.get(), link.peer));
  // A quarter: one sender alone cannot fill the FIFO for all others, and it notices a stopped receiver early.
  link.out->fragments().set_window(static_cast<std::uint32_t>(link.inbox.fifo().slots() / 4));
  OPAL_TRY_ASSIGN(link.registrations_map, mpool::SharedPool::attach(received.fds.registrations.get(), false));
  OPAL_TRY_ASSIGN(link.registrations, RegistrationView::over(link.registrations_map.bytes()));
  OPAL_TRY(check_doorbell(received.fds.doorbell.get()));
  link.doorbell = std::move(received.fds.doorbell);
  build_mechanisms(link, pid, hello);
  return {};
}

KnemCookie LocalSide::cookie_of(const SoftwareHandle& claimed) const noexcept {
  return knem_ ? (*knem_)->cookie_of(claimed) : KnemCookie{claimed, 0};
}

/// A mechanism of `kind` for the memory of the peer that has sent `hello`, not tried yet.
Result<std::unique_ptr<CopyMechanism>> LocalSide::open(MechanismKind kind, int pid, const Hello& hello) const {
  using Mechanism = std::unique_ptr<CopyMechanism>;
  switch (kind) {
    case MechanismKind::xpmem: {
      if (!xpmem_) return xpmem_.error();
      if (hello.xpmem_segment == 0) return Error{Errc::not_supported, 0, "the peer offers no segment"};
      OPAL_TRY_ASSIGN(Mechanism mechanism, XpmemMechanism::open(*xpmem_, hello.xpmem_segment));
      return mechanism;
    }
    case MechanismKind::cma:
      if (pid > 0) return Mechanism{std::make_unique<CmaMechanism>(pid)};
      return Error{Errc::not_supported, 0, "the peer's process is not visible in this PID namespace"};
    case MechanismKind::knem: {
      if (!knem_) return knem_.error();
      if (hello.knem_cookie == 0) return Error{Errc::not_supported, 0, "the peer offers no cookie"};
      const SoftwareHandle page{0, hello.probe_address, sizeof(ProbePage), 0, 0};
      return Mechanism{std::make_unique<KnemMechanism>((*knem_)->device(), KnemCookie{page, hello.knem_cookie})};
    }
    case MechanismKind::shared: break;
  }
  return Mechanism{std::make_unique<SharedMechanism>()};
}

void LocalSide::build_mechanisms(Link& link, int pid, const Hello& hello) const {
  if (order_.kinds.empty()) link.copy.refuse_all("btl_sm_single_copy is none");
  const RemoteRange page{hello.probe_address, sizeof(ProbePage), {}};
  for (const MechanismKind kind : order_.kinds) {
    auto opened = open(kind, pid, hello);
    if (!opened) {
      link.copy.refuse(kind, opened.error());
    } else if (kind == MechanismKind::shared) {
      link.shared = static_cast<SharedMechanism*>(opened->get());
      link.copy.add(std::move(*opened), "memory of shared pools");
    } else {
      link.copy.try_mechanism(std::move(*opened), page, hello.probe_seed);
    }
  }
}

}  // namespace opal::btl::sm
