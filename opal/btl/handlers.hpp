// SPDX-License-Identifier: Apache-2.0
// opal/btl/handlers.hpp — which function gets the messages of a tag.  One table per Context, shared by its modules.
// Threads: set and clear under the Context's lock or before traffic; dispatch runs inside progress().
#pragma once
#include <array>
#include <memory>

#include "opal/btl/delivery.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl {

/// A function and the object it works on.  Handlers may post on any endpoint; they must not block, call progress(),
/// or disconnect the endpoint they were called for.
struct Handler {
  using Fn = void (*)(void* object, Delivery& delivery) noexcept;
  Fn fn = nullptr;
  void* object = nullptr;
  const char* name = "";  ///< for traces and errors; static lifetime
};

/// `bind<&Server::on_request>(server, "request")`: a handler that calls a member function, checked by the compiler.
template <auto Method, class T>
Handler bind(T& object, const char* name) noexcept {
  return {[](void* self, Delivery& delivery) noexcept { (static_cast<T*>(self)->*Method)(delivery); }, &object, name};
}

class OPAL_EXPORT HandlerTable {
 public:
  /// Errors: invalid_argument (tag 0 or 0xffff, no function), limit_reached (the tag has a handler already).
  Result<void> set(Tag tag, const Handler& handler);
  void clear(Tag tag) noexcept;
  [[nodiscard]] const Handler* find(Tag tag) const noexcept {
    const Page* page = pages_[tag >> 8].get();
    if (page == nullptr || (*page)[tag & 0xff].fn == nullptr) return nullptr;
    return &(*page)[tag & 0xff];
  }

  /// Runs the handler of delivery.tag; a message without a handler is counted, logged once per tag, and dropped.
  void dispatch(Delivery& delivery) const noexcept {
    const Handler* handler = find(delivery.tag);
    if (handler == nullptr) [[unlikely]] {
      report_unwanted(delivery);
      return;
    }
    handler->fn(handler->object, delivery);
  }

 private:
  using Page = std::array<Handler, 256>;
  [[gnu::cold]] static void report_unwanted(const Delivery& delivery) noexcept;
  std::array<std::unique_ptr<Page>, 256> pages_;
};

}  // namespace opal::btl
