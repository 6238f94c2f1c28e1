// SPDX-License-Identifier: Apache-2.0
// Talks to itself: a message, and a put into the middle of its own registered memory.
#include <cstdio>
#include <vector>

#include "opal/am/context.hpp"

namespace {

struct Counter {
  int messages = 0;
  void on_message(opal::btl::Delivery& delivery) noexcept { messages += delivery.data.size() == 8 ? 1 : 0; }
};

opal::Result<bool> run() {
  OPAL_TRY_ASSIGN(const auto context, opal::am::Context::open(opal::config::Store::from_environment()));
  Counter counter;
  OPAL_TRY(context->set_handler(opal::kUserTags.first, opal::btl::bind<&Counter::on_message>(counter, "count")));
  OPAL_TRY_ASSIGN(opal::am::Endpoint* const self, context->connect(context->address()));

  std::vector<std::uint64_t> memory(1000);
  OPAL_TRY_ASSIGN(const opal::am::Region region,
                  context->register_memory(memory.data(), memory.size() * 8, opal::Rights::all));
  OPAL_TRY_ASSIGN(const opal::MemoryHandle key, self->unpack_key(region.key()));
  const std::uint64_t value = 42;
  struct Flag : opal::Completion {
    bool ended = false;
  } flag;
  flag.fn = [](opal::Completion& ended) noexcept { static_cast<Flag&>(ended).ended = true; };
  const auto middle = reinterpret_cast<std::uint64_t>(&memory[500]);
  const opal::Post put = self->put(&value, middle, key, sizeof value, flag);
  if (put == opal::Post::failed) return flag.error;
  if (self->send_or_queue(opal::kUserTags.first, opal::bytes_of(value), {}) != opal::Post::done) return self->error();
  const bool through = context->wait_until(
      [&] { return counter.messages == 1 && (put == opal::Post::done || flag.ended); }, std::chrono::seconds{20});
  return through && memory[500] == 42 && memory[499] == 0 && memory[501] == 0;
}

}  // namespace

int main() {
  const auto right = run();
  if (!right) std::fprintf(stderr, "cxx_user: %s\n", to_string(right.error()).c_str());
  if (right && *right) std::puts("cxx_user: right");
  return right && *right ? 0 : 1;
}
