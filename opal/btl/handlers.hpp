// SPDX-License-Identifier: Apache-2.0
// opal/btl/handlers.hpp — maps the tag of an active message to its handler.  One table per Context, shared by its
// modules.  Threads: set() and clear() under the Context's lock or before traffic; dispatch() runs inside progress().
#pragma once
#include <array>
#include <memory>

#include "opal/btl/delivery.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl {

/// The memory of the program to which a transport receives the payload of a message.
struct Place {
  std::byte* memory = nullptr;  ///< host memory; null: the payload arrives in Delivery::data
  std::size_t header = 0;       ///< bytes at the front of the message, not 0, that arrive in Delivery::data
};

/// A function and its first argument.  The owner of the table keeps `object` alive until clear().
/// A handler may post on any endpoint.  It must not block and must not call progress() or Module::disconnect().
struct Handler {
  using Fn = void (*)(void* object, Delivery& delivery) noexcept;
  /// The place of the payload of a message of `size` bytes, of which `head` has arrived; null memory while it is not
  /// known.  A transport that receives into a buffer of its own saves a copy by it (tcp, for large messages); others
  /// never call it.  It is called before each write to that memory, which may end between two calls.
  using PlaceFn = Place (*)(void* object, Endpoint& from, ByteSpan head, std::size_t size) noexcept;
  Fn fn = nullptr;
  void* object = nullptr;
  const char* name = "";  ///< for traces and errors; static lifetime
  PlaceFn place = nullptr;
};

/// Makes a handler that calls a member function: `bind<&Server::on_request>(server, "request")`.
template <auto Method, class T>
Handler bind(T& object, const char* name) noexcept {
  return {[](void* self, Delivery& delivery) noexcept { (static_cast<T*>(self)->*Method)(delivery); }, &object, name};
}

/// As bind(), with a member function for Handler::place.
template <auto Method, auto PlaceMethod, class T>
Handler bind(T& object, const char* name) noexcept {
  Handler handler = bind<Method>(object, name);
  handler.place = [](void* self, Endpoint& from, ByteSpan head, std::size_t size) noexcept {
    return (static_cast<T*>(self)->*PlaceMethod)(from, head, size);
  };
  return handler;
}

/// Makes a handler that calls a member function of the object that Find(delivery.from) returns; null: drops the
/// message. For handlers that all modules of a Context share: `bind_by_sender<&server_of,
/// &Server::on_request>("request")`.
template <auto Find, auto Method>
Handler bind_by_sender(const char* name) noexcept {
  return {[](void* /*unused*/, Delivery& delivery) noexcept {
            if (auto* const object = Find(delivery.from); object != nullptr) (object->*Method)(delivery);
          },
          nullptr, name};
}
template <auto Find, auto Method, auto PlaceMethod>
Handler bind_by_sender(const char* name) noexcept {
  Handler handler = bind_by_sender<Find, Method>(name);
  handler.place = [](void* /*unused*/, Endpoint& from, ByteSpan head, std::size_t size) noexcept {
    auto* const object = Find(from);
    return object != nullptr ? (object->*PlaceMethod)(from, head, size) : Place{};
  };
  return handler;
}

class OPAL_EXPORT HandlerTable {
 public:
  /// Errors: invalid_argument (tag 0 or 0xffff, no function), limit_reached (the tag has a handler already).
  Result<void> set(Tag tag, const Handler& handler);
  void clear(Tag tag) noexcept;
  /// The handler of `tag`, valid until clear(); null: none.
  [[nodiscard]] const Handler* find(Tag tag) const noexcept {
    const Page* page = pages_[tag >> 8].get();
    if (page == nullptr || (*page)[tag & 0xff].fn == nullptr) return nullptr;
    return &(*page)[tag & 0xff];
  }

  /// Runs the handler of delivery.tag.  A message without a handler is dropped, with one log line per tag.
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
