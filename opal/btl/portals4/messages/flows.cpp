// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/portals4/messages/flows.hpp"

#include <algorithm>

namespace opal::btl::portals4 {

void Flow::on_refused(SendBuffer& buffer) {
  --in_flight_;
  probing_ = false;
  open_ = false;
  const auto place = std::upper_bound(refused_.begin(), refused_.end(), buffer.number,
                                      [](std::uint64_t number, const SendBuffer* one) { return number < one->number; });
  refused_.insert(place, &buffer);
}

void Flow::on_ended() noexcept {
  --in_flight_;
  if (std::exchange(probing_, false)) open_ = true;
}

SendBuffer* Flow::to_repeat() noexcept {
  if (refused_.empty() || (in_flight_ != 0 && !open_)) return nullptr;
  return refused_.front();
}

void Flow::on_repeated() noexcept {
  refused_.erase(refused_.begin());
  if (in_flight_++ == 0 && !open_) probing_ = true;
  if (refused_.empty()) open_ = false;
}

Flow::Arrival Flow::on_arrival(std::uint64_t number, ByteSpan message) {
  if (number == expected_) {
    ++expected_;
    return Arrival::in_order;
  }
  if (number < expected_ || number - expected_ > kMostEarly) return Arrival::wrong;
  const bool is_new = early_.try_emplace(number, message.begin(), message.end()).second;
  return is_new ? Arrival::early : Arrival::wrong;
}

std::vector<std::byte> Flow::take_due() {
  const auto first = early_.begin();
  if (first == early_.end() || first->first != expected_) return {};
  ++expected_;
  return std::move(early_.extract(first).mapped());
}

}  // namespace opal::btl::portals4
