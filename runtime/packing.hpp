// SPDX-License-Identifier: Apache-2.0
// runtime/packing.hpp — converts structs to bytes and back, for messages between processes of the runtime.
//   aggregate           its members in their order, at most 9
//   other class         the members that its function fields(visitor) passes to the visitor
//   integer, enum       64 bits, little endian
//   text, bytes, list   the length, then the elements; unpacking checks the length before it allocates memory
//   variant             the index of the alternative, then its value
// Pure functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/core_names.hpp"

namespace runtime {

/// Converts to any type: member_count() initializes members with it.
struct AnyMember {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): that is its purpose
};

/// The number of members of an aggregate.
template <class T, class... Members>
constexpr std::size_t member_count() {
  if constexpr (requires { T{Members{}..., AnyMember{}}; }) {
    return member_count<T, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

/// Calls `visitor` with the members of `object`.
template <class T, class Visitor>
void visit_members(T& object, Visitor& visitor) {
  constexpr std::size_t kCount = member_count<std::remove_const_t<T>>();
  static_assert(kCount <= 9, "add a case");
  if constexpr (kCount == 1) {
    auto& [a] = object;
    visitor(a);
  } else if constexpr (kCount == 2) {
    auto& [a, b] = object;
    visitor(a, b);
  } else if constexpr (kCount == 3) {
    auto& [a, b, c] = object;
    visitor(a, b, c);
  } else if constexpr (kCount == 4) {
    auto& [a, b, c, d] = object;
    visitor(a, b, c, d);
  } else if constexpr (kCount == 5) {
    auto& [a, b, c, d, e] = object;
    visitor(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = object;
    visitor(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = object;
    visitor(a, b, c, d, e, f, g);
  } else if constexpr (kCount == 8) {
    auto& [a, b, c, d, e, f, g, h] = object;
    visitor(a, b, c, d, e, f, g, h);
  } else if constexpr (kCount == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = object;
    visitor(a, b, c, d, e, f, g, h, i);
  }
}

class Packer {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (add(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class T>
  void add(const T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      const auto wide = static_cast<std::uint64_t>(value);
      bytes_.append(reinterpret_cast<const char*>(&wide), sizeof wide);
    } else if constexpr (std::is_aggregate_v<T>) {
      visit_members(value, *this);
    } else {
      const_cast<T&>(value).fields(*this);  // which only reads, as `this` does
    }
  }
  void add(const std::string& text) { add(std::as_bytes(std::span{text})); }
  void add(ByteSpan text) {
    add(text.size());
    bytes_.append(reinterpret_cast<const char*>(text.data()), text.size());
  }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& item : list) add(item);
  }
  template <class A, class B>
  void add(const std::pair<A, B>& pair) {
    add(pair.first);
    add(pair.second);
  }
  template <class... T>
  void add(const std::variant<T...>& one) {
    add(one.index());
    std::visit(*this, one);
  }
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(ByteSpan bytes) noexcept : bytes_(bytes) {}
  template <class... T>
  void operator()(T&... values) {
    (take(values), ...);
  }
  /// True when all values could be read and no byte is left.
  [[nodiscard]] bool whole() const noexcept { return good_ && bytes_.empty(); }

 private:
  template <class T>
  void take(T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      std::uint64_t wide = 0;
      if (!good_ || !opal::read_object(bytes_, wide)) {
        good_ = false;
        return;
      }
      bytes_ = bytes_.subspan(sizeof wide);
      value = static_cast<T>(wide);
      if (static_cast<std::uint64_t>(value) != wide) good_ = false;
    } else if constexpr (std::is_aggregate_v<T>) {
      visit_members(value, *this);
    } else {
      value.fields(*this);
    }
  }
  void take(std::string& text) {
    const std::size_t size = length();
    text.assign(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
  }
  /// Does not copy: `text` is valid as long as the bytes given to the constructor.
  void take(ByteSpan& text) {
    const std::size_t size = length();
    text = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
  }
  template <class T>
  void take(std::vector<T>& list) {
    const std::size_t count = length();  // each item takes at least a byte
    for (std::size_t i = 0; i < count && good_; ++i) take(list.emplace_back());
  }
  template <class A, class B>
  void take(std::pair<A, B>& pair) {
    take(pair.first);
    take(pair.second);
  }
  template <class... T>
  void take(std::variant<T...>& one) {
    std::size_t index = 0;
    take(index);
    good_ = good_ && index < sizeof...(T);
    std::size_t next = 0;
    ((index == next++ ? take(one.template emplace<T>()) : void()), ...);
  }
  /// Reads a length; 0, and a failure, when fewer bytes are left.
  std::size_t length() {
    std::uint64_t size = 0;
    take(size);
    if (size > bytes_.size()) good_ = false;
    return good_ ? size : 0;
  }
  ByteSpan bytes_;
  bool good_ = true;
};

template <class T>
std::string pack(const T& message) {
  Packer packer;
  packer(message);
  return packer.take();
}

/// Errors: protocol (too short, too long, a number out of its type's range).
template <class T>
Result<T> unpack(ByteSpan bytes) {
  Result<T> message{T{}};
  Unpacker unpacker{bytes};
  unpacker(*message);
  if (!unpacker.whole()) return Error{Errc::protocol, 0, "runtime: garbled message", bytes.size()};
  return message;
}

}  // namespace runtime
