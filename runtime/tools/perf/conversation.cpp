// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/perf/conversation.hpp"

#include <cstring>

namespace opal::perf {

Result<std::unique_ptr<Conversation>> Conversation::open(Pairing& pairing, const std::string& transport,
                                                         std::uint64_t region_size) {
  std::unique_ptr<Conversation> self{new Conversation};
  self->rank_ = pairing.rank();
  self->memory_.assign(region_size, std::byte{1});  // touched: no page fault is measured
  config::Store store = config::Store::from_environment();
  if (!transport.empty()) store.set("am_transports", transport);
  OPAL_TRY_ASSIGN(self->context_, am::Context::open(store));
  am::Context& context = *self->context_;
  OPAL_TRY(context.set_handler(kEcho, btl::bind<&Conversation::on_echo>(*self, "echo")));
  OPAL_TRY(context.set_handler(kStream, btl::bind<&Conversation::on_stream>(*self, "stream")));
  OPAL_TRY(context.set_handler(kAnswer, btl::bind<&Conversation::on_answer>(*self, "answer")));
  OPAL_TRY(context.set_handler(kStop, btl::bind<&Conversation::on_stop>(*self, "stop")));
  OPAL_TRY_ASSIGN(self->region_, context.register_memory(self->memory_.data(), region_size, Rights::all));

  const ByteSpan address = context.address();
  const ByteSpan key = self->region_.key();
  const Hello hello{reinterpret_cast<std::uint64_t>(self->memory_.data()), region_size,
                    static_cast<std::uint32_t>(address.size()), static_cast<std::uint32_t>(key.size())};
  std::vector<std::byte> mine(sizeof hello + address.size() + key.size());
  std::memcpy(mine.data(), &hello, sizeof hello);
  std::memcpy(mine.data() + sizeof hello, address.data(), address.size());
  std::memcpy(mine.data() + sizeof hello + address.size(), key.data(), key.size());
  OPAL_TRY_ASSIGN(const std::vector<std::byte> theirs, pairing.exchange(mine));
  Hello other{};
  if (!read_object(ByteSpan{theirs}, other) ||
      theirs.size() != sizeof other + std::size_t{other.address_size} + other.key_size) {
    return Error{Errc::protocol, 0, "opal-perf: the other process speaks another version", theirs.size()};
  }
  OPAL_TRY_ASSIGN(self->peer_, context.connect(ByteSpan{theirs}.subspan(sizeof other, other.address_size)));
  OPAL_TRY_ASSIGN(self->remote_key_, self->peer_->unpack_key(ByteSpan{theirs}.last(other.key_size)));
  self->remote_address_ = other.region_address;
  return self;
}

void Conversation::respond() {
  while (rank_ == 1 && !stopped_ && !peer_->dead()) context_->progress();
}

void Conversation::stop() {
  if (rank_ != 0) return;
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

void Conversation::on_answer(btl::Delivery&) noexcept { ++answers_; }

void Conversation::on_stop(btl::Delivery& delivery) noexcept {
  stopped_ = true;
  (void)am::sender(delivery).send_or_queue(kAnswer, delivery.data, {});
}

}  // namespace opal::perf
