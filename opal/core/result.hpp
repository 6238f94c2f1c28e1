// SPDX-License-Identifier: Apache-2.0
// opal/core/result.hpp — a value or an Error, with the names of std::expected, which C++20 does not have.
// Threads: a value, no shared state.
#pragma once
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <variant>

#include "opal/core/error.hpp"

namespace opal {

/// Either a T or the Error that prevented it.  `Result<T> f() { return Error{...}; }` and `return T{...};` both work.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}    // NOLINT(google-explicit-constructor)
  Result(Error error) noexcept : state_(std::in_place_index<1>, error) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// The value.  Aborts if there is none, so test has_value() first.
  T& value() & noexcept { return check(), *std::get_if<0>(&state_); }
  const T& value() const& noexcept { return check(), *std::get_if<0>(&state_); }
  T&& value() && noexcept { return check(), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & noexcept { return value(); }
  const T& operator*() const& noexcept { return value(); }
  T&& operator*() && noexcept { return std::move(*this).value(); }
  T* operator->() noexcept { return &value(); }
  const T* operator->() const noexcept { return &value(); }

  /// The error; aborts when there is none.
  [[nodiscard]] const Error& error() const noexcept {
    const Error* error = std::get_if<1>(&state_);
    if (error == nullptr) std::abort();
    return *error;
  }

  template <class U>
  T value_or(U&& fallback) && {
    return has_value() ? std::move(*this).value() : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  void check() const noexcept {
    if (!has_value()) std::abort();
  }
  std::variant<T, Error> state_;
};

/// Success, or the Error that prevented it.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() noexcept = default;
  Result(Error error) noexcept : error_(error), failed_(true) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return !failed_; }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const noexcept {
    if (failed_) std::abort();
  }
  [[nodiscard]] const Error& error() const noexcept {
    if (!failed_) std::abort();
    return error_;
  }

 private:
  Error error_{};
  bool failed_ = false;
};

}  // namespace opal

#define OPAL_CONCAT_INNER(a, b) a##b
#define OPAL_CONCAT(a, b) OPAL_CONCAT_INNER(a, b)

/// Returns the error of `expression` (a Result<void>) from the enclosing function, if it has one.
#define OPAL_TRY(expression)                                     \
  do {                                                           \
    if (auto opal_try_result = (expression); !opal_try_result) { \
      return opal_try_result.error();                            \
    }                                                            \
  } while (false)

/// `OPAL_TRY_ASSIGN(auto x, f());` declares x from f()'s value or returns f()'s error.  It is three statements.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses
#define OPAL_TRY_ASSIGN(declaration, expression)        \
  auto OPAL_CONCAT(opal_try_, __LINE__) = (expression); \
  if (!OPAL_CONCAT(opal_try_, __LINE__)) {              \
    return OPAL_CONCAT(opal_try_, __LINE__).error();    \
  }                                                     \
  declaration = std::move(OPAL_CONCAT(opal_try_, __LINE__)).value()
// NOLINTEND(bugprone-macro-parentheses)
