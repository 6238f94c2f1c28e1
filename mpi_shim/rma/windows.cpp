// SPDX-License-Identifier: Apache-2.0
// Handlers of the messages of peers for windows.  Each message is checked before it has an effect.
#include "mpi_shim/rma/windows.hpp"

#include <algorithm>

#include "mpi_shim/datatype/construction/description.hpp"
#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/rma/window.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::rma {
namespace {

/// Limit for the bytes of a description: a longer one would fill a transport's queue.
constexpr std::uint64_t kMostDescription = 8 << 20;

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
  OPAL_TRY(context.set_handler(wire::kType, btl::bind<&Windows::on_type>(*this, "mpi datatype")));
  OPAL_TRY(context.set_handler(wire::kAccess, btl::bind<&Windows::on_access>(*this, "mpi window access")));
  return context.set_handler(wire::kAccessReply, btl::bind<&Windows::on_access_reply>(*this, "mpi window reply"));
}

Windows::~Windows() {
  for (Tag tag = wire::kFirst; tag <= wire::kLast; ++tag) engine_.context().clear_handler(tag);
}

void Windows::want_helper() {
  const am::Lock::Guard guard{engine_.lock()};  // several threads may create windows at the same time
  if (may_help_ && helper_ == nullptr) helper_ = std::make_unique<ProgressHelper>(engine_);
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
    default: target.unlocking.fetch_sub(1, std::memory_order_release); break;
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
  datatype::DatatypeRef type;
  if (header.type < wire::kTypeSlot) {
    if (datatype::Datatype* named = datatype::predefined(header.type)) type = datatype::DatatypeRef::share(*named);
  } else if (const auto types = types_.find(&am::sender(delivery));
             types != types_.end() && header.type - wire::kTypeSlot < wire::kTypeSlots) {
    type = types->second.received[header.type - wire::kTypeSlot].type;
  }
  if (!type) return refuse(delivery, "no such datatype");
  window->on_access(am::sender(delivery), header, std::move(type), delivery.data.subspan(sizeof header));
}

void Windows::on_access_reply(btl::Delivery& delivery) noexcept {
  wire::AccessReply reply{};
  if (!read_object(delivery.data, reply)) return refuse(delivery, "it is too short");
  MessageAccess* const access = under_way_.find(reply.id);
  if (access == nullptr || !access->is_to(am::sender(delivery))) return refuse(delivery, "no such access");
  access->on_reply(reply, delivery.data.subspan(sizeof reply));
}

void Windows::on_type(btl::Delivery& delivery) noexcept {
  wire::TypeHeader header{};
  if (!read_object(delivery.data, header) || header.slot >= wire::kTypeSlots) return refuse(delivery, "it is garbled");
  Types::Received& received = types_[&am::sender(delivery)].received[header.slot];
  const ByteSpan part = delivery.data.subspan(sizeof header);
  if (header.offset == 0) received.bytes.clear();
  if (header.offset != received.bytes.size() || header.total > kMostDescription ||
      part.size() > header.total - header.offset) {
    return refuse(delivery, "its parts do not fit together");
  }
  received.bytes.insert(received.bytes.end(), part.begin(), part.end());
  if (received.bytes.size() != header.total) return;
  auto type = datatype::from_description(received.bytes);
  received.bytes = {};
  received.type = {};
  if (!type) return refuse(delivery, "it describes no datatype");
  received.type = std::move(*type);
}

Result<std::uint32_t> Windows::describe_type(p2p::Peer& peer, const datatype::Datatype& type) {
  Types& types = types_[peer.endpoint];
  for (std::uint32_t slot = 0; slot < wire::kTypeSlots; ++slot) {
    if (types.sent[slot].type.get() != &type) continue;
    ++types.sent[slot].users;
    return slot;
  }
  std::uint32_t slot = types.next;
  while (types.sent[slot].users != 0) {
    slot = (slot + 1) % wire::kTypeSlots;
    if (slot == types.next) return Error{Errc::busy, 0, "all slots of datatypes are in use"};
  }
  const std::vector<std::byte> description = datatype::describe(type);
  if (description.size() > kMostDescription) {
    return Error{Errc::limit_reached, 0, "the description of a datatype", description.size()};
  }
  wire::TypeHeader header{slot, 0, description.size(), 0};
  const std::uint64_t room = peer.endpoint->attributes().max_send - sizeof header;
  for (ByteSpan left{description}; !left.empty();) {
    const ByteSpan part = left.first(std::min<std::uint64_t>(room, left.size()));
    if (peer.endpoint->send_or_queue(wire::kType, bytes_of(header), part) == Post::failed)
      return peer.endpoint->error();
    header.offset += part.size();
    left = left.subspan(part.size());
  }
  types.next = (slot + 1) % wire::kTypeSlots;
  types.sent[slot].type =
      datatype::DatatypeRef::share(const_cast<datatype::Datatype&>(type));  // only the reference count changes
  types.sent[slot].users = 1;
  return slot;
}

void Windows::release_type(p2p::Peer& peer, std::uint32_t slot) noexcept { --types_[peer.endpoint].sent[slot].users; }

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
