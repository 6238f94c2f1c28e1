// SPDX-License-Identifier: Apache-2.0
// What a neighbour in the tree of daemons may send, at any time and by any connection: frames and ends of connections
// to a member in the middle of a tree, and to a root.  Each input byte sequence is: which channel, what, a length, the
// body.  No crash, no endless loop, and no memory beyond what was sent.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "tests/runtime/node_probe.hpp"

namespace {

using namespace runtime::overlay;

class Silent final : public Port, public Client {
 public:
  Channel connect(Id) override { return 1; }
  void send(Channel, std::string) override {}
  void close(Channel) override {}
  void on_up(Id, std::uint16_t, opal::ByteSpan) override {}
  void on_down(std::uint16_t, opal::ByteSpan) override {}
  void on_release(const Release&) override {}
  [[nodiscard]] IdSet absent(const std::string& key) const override { return key.empty() ? IdSet::of(2) : IdSet{}; }
  void on_lost(Id, runtime::overlay::Loss) override {}
  void on_out(const char*) override {}
};

void feed(Id self, opal::ByteSpan rest) {
  Silent silent;
  Nanoseconds now = 0;
  Node node{{.self = self, .count = 40, .radix = 3}, silent, silent, now};
  const std::size_t size = rest.size();
  const auto take = [&] {
    const auto byte = std::to_integer<unsigned>(rest.empty() ? std::byte{0} : rest[0]);
    rest = rest.subspan(rest.empty() ? 0 : 1);
    return byte;
  };
  while (!rest.empty()) {
    const Channel channel = 1 + take() % 3;
    const unsigned what = take();
    now += what * 1'000'000'000ULL / 16;
    if (what % 16 == 0) {
      node.on_closed(channel, now);
    } else if (what % 16 == 1) {
      node.on_time(now);
    } else {
      const unsigned attach = take() % 4;
      const unsigned number = take() % 16;
      const std::size_t length = std::min<std::size_t>(take(), rest.size());
      const std::string bytes = frame(FrameType{static_cast<std::uint16_t>(what % 16)}, attach, number,
                                      runtime::oob::as_text(rest.first(length)));
      rest = rest.subspan(length);
      node.on_frame(channel, runtime::oob::as_bytes(bytes), now);
    }
    if (NodeProbe::held_bytes(node) > 100 * size + 10'000) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const opal::ByteSpan input = std::as_bytes(std::span{data, size});
  feed(1, input);
  feed(0, input);
  return 0;
}
