// SPDX-License-Identifier: Apache-2.0
// opal/btl/fragment.hpp — a send buffer inside the transport, in which the caller makes the whole message.
// Move-only.  The destructor returns an unsent fragment to the transport.  Threads: as its module.
// Lifetime: a fragment must be sent or destroyed before its endpoint is disconnected, also when the endpoint is dead.
#pragma once
#include <utility>

#include "opal/btl/endpoint.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

class Module;

class Fragment {
 public:
  Fragment() noexcept = default;
  /// For transports.  `data`: the bytes of the message in the buffer.  `slot` identifies the buffer to the transport.
  Fragment(Endpoint& to, MutableBytes data, void* slot) noexcept : to_(&to), data_(data), slot_(slot) {
    ++to.fragments_;
  }
  Fragment(Fragment&& other) noexcept { *this = std::move(other); }
  Fragment& operator=(Fragment&& other) noexcept {
    if (this != &other) {
      give_back();
      to_ = std::exchange(other.to_, nullptr);
      data_ = std::exchange(other.data_, {});
      slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
  }
  Fragment(const Fragment&) = delete;
  Fragment& operator=(const Fragment&) = delete;
  ~Fragment() { give_back(); }

  /// False for an empty fragment: default-constructed, moved from, or sent.
  explicit operator bool() const noexcept { return to_ != nullptr; }
  [[nodiscard]] Endpoint& to() const noexcept { return *to_; }
  [[nodiscard]] MutableBytes data() const noexcept { return data_; }
  [[nodiscard]] void* slot() const noexcept { return slot_; }
  /// Makes data() shorter, so that send() sends only its first `size` bytes.  Requires: `size` <= data().size().
  void shrink(std::size_t size) noexcept { data_ = data_.first(size); }

  /// For transports: the transport takes the buffer back (sent or returned).  The fragment is empty afterwards.
  void disown() noexcept {
    --to_->fragments_;
    to_ = nullptr;
    data_ = {};
    slot_ = nullptr;
  }

 private:
  void give_back() noexcept {
    if (to_ != nullptr) give_back_unsent();
  }
  OPAL_EXPORT void give_back_unsent() noexcept;  // calls Module::free
  Endpoint* to_ = nullptr;
  MutableBytes data_;
  void* slot_ = nullptr;
};

}  // namespace opal::btl
