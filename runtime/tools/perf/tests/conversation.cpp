// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/perf/tests/conversation.hpp"

#include <algorithm>
#include <cstring>

#include "opal/core/log.hpp"
#include "runtime/packing.hpp"

namespace opal::perf {
namespace {

/// What each process gives to Pairing::exchange() before they connect.
struct ExchangeHeader {
  ByteSpan address;
  std::uint64_t region_address = 0;
  ByteSpan key;
};

}  // namespace

Result<std::unique_ptr<Conversation>> Conversation::open(Pairing& pairing, const std::string& transport,
                                                         std::uint64_t region_size,
                                                         const ConversationOptions& options) {
  std::unique_ptr<Conversation> self{new Conversation};
  OPAL_TRY_ASSIGN(self->pool_, mpool::open(options.shared_pool ? "shared" : "heap"));
  OPAL_TRY_ASSIGN(std::byte* const memory, self->pool_->allocate(region_size, kCacheLine));
  self->memory_ = {memory, region_size};
  std::memset(memory, 1, region_size);  // touched: no page fault is measured
  config::Store store = config::Store::from_environment();
  for (const auto& [name, value] : options.settings) store.set(name, value);
  if (!transport.empty()) store.set("am_transports", transport);
  OPAL_TRY_ASSIGN(self->context_, am::Context::open(store, {.secret = pairing.secret()}));
  am::Context& context = *self->context_;
  OPAL_TRY(context.set_handler(kEcho, btl::bind<&Conversation::on_echo>(*self, "echo")));
  OPAL_TRY(context.set_handler(kStream, btl::bind<&Conversation::on_stream>(*self, "stream")));
  OPAL_TRY(context.set_handler(kAnswer, btl::bind<&Conversation::on_answer>(*self, "answer")));
  OPAL_TRY(context.set_handler(kStop, btl::bind<&Conversation::on_stop>(*self, "stop")));
  OPAL_TRY(context.set_handler(kCopy, btl::bind<&Conversation::on_copy>(*self, "copy")));
  OPAL_TRY(context.set_handler(kFetch, btl::bind<&Conversation::on_fetch>(*self, "fetch")));
  self->fetch_.conversation = self.get();
  self->fetch_.fn = [](Completion& done) noexcept { static_cast<Fetch&>(done).conversation->end_fetch(); };
  OPAL_TRY_ASSIGN(self->region_, context.register_memory(self->memory_.data(), region_size, Rights::all));

  const std::string mine =
      ::runtime::pack(ExchangeHeader{context.address(), reinterpret_cast<std::uint64_t>(memory), self->region_.key()});
  OPAL_TRY_ASSIGN(const std::vector<std::byte> bytes, pairing.exchange(std::as_bytes(std::span{mine})));
  OPAL_TRY_ASSIGN(const ExchangeHeader theirs, ::runtime::unpack<ExchangeHeader>(bytes));
  OPAL_TRY_ASSIGN(self->peer_, context.connect(theirs.address));
  OPAL_TRY_ASSIGN(self->remote_key_, self->peer_->unpack_key(theirs.key));
  self->remote_address_ = theirs.region_address;
  return self;
}

void Conversation::respond() {
  while (!stopped_ && !peer_->dead()) progress();
}

void Conversation::stop() {
  (void)send(kStop, true, {});
  await_answers(answers_ + 1);
}

void Conversation::on_echo(btl::Delivery& delivery) noexcept {
  (void)am::sender(delivery).send_or_queue(kAnswer, delivery.data, {});
}

void Conversation::on_stream(btl::Delivery& delivery) noexcept {
  Header header{};
  if (read_object(delivery.data, header) && header.want_answer == 1) {
    (void)am::sender(delivery).send_or_queue(kAnswer, bytes_of(header), {});
  }
}

void Conversation::on_copy(btl::Delivery& delivery) noexcept {
  if (delivery.data.size() < sizeof(Header)) return;
  const ByteSpan payload = delivery.data.subspan(sizeof(Header));
  std::memcpy(memory_.data(), payload.data(), std::min(payload.size(), memory_.size()));
  answer();
}

void Conversation::on_fetch(btl::Delivery& delivery) noexcept {
  std::uint64_t size = 0;
  if (delivery.data.size() < sizeof(Header) || !read_object(delivery.data.subspan(sizeof(Header)), size)) return;
  fetch_.size = std::min<std::uint64_t>(size, memory_.size());
  fetch_.error = {};
  const Post post = peer_->get_or_queue(memory_.data(), remote_address_, remote_key_, fetch_.size, fetch_);
  if (post != Post::queued) end_fetch();
}

/// Answers after a failed get, too: rank 0 waits for the answer.  Not while the Context ends.
void Conversation::end_fetch() noexcept {
  if (fetch_.error.code == Errc::canceled) return;
  if (!fetch_.ok()) log::error("perf", "a get of {} bytes failed: {}", fetch_.size, to_string(fetch_.error));
  answer();
}

void Conversation::answer() noexcept { (void)peer_->send_or_queue(kAnswer, bytes_of(Header{0}), {}); }

void Conversation::on_answer(btl::Delivery&) noexcept { ++answers_; }

void Conversation::on_stop(btl::Delivery& delivery) noexcept {
  stopped_ = true;
  (void)am::sender(delivery).send_or_queue(kAnswer, delivery.data, {});
}

}  // namespace opal::perf
