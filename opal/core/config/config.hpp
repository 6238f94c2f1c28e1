// SPDX-License-Identifier: Apache-2.0
// opal/core/config/config.hpp — declares configuration variables: a struct with the defaults, and a table with one row
// per variable.
//   struct Config { ByteSize fbox_size = 4_KiB; };
//   inline constexpr config::Var<Config> kVars[] = {
//       {"fbox_size", &Config::fbox_size, Level::tuner, "Bytes of each per-peer fast box.",
//        {.min = 1_KiB, .max = 1_MiB, .power_of_two = true}}};
//   inline constexpr config::Group<Config> kGroup{"btl_sm", "Shared-memory transport", kVars};
// This variable is called btl_sm_fbox_size in files, in `opalrun --set` and in Store::set(), and OPAL_BTL_SM_FBOX_SIZE
// in the environment.  Groups are constants without static constructors.  store.hpp makes a Config from settings.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <variant>

#include "opal/core/config/value.hpp"
#include "opal/core/export.hpp"

namespace opal::config {

/// One row: a variable of the plain struct C.
template <class C>
struct Var {
  const char* name;  ///< without the group's prefix
  Member<C> member;
  Level level;
  const char* doc;  ///< documentation for users, as opal-info shows it
  Range range{};
  const char* unit = "";  ///< the unit of a number without suffix: "sends"
};

/// A Var without the type of its struct and its member.
struct VarInfo {
  const char* name;  ///< without the group's prefix
  Type type;
  Level level;
  const char* doc;
  Range range;
  const char* unit;
};

/// A group of variables with its struct's type erased.  Groups are constants; pointers to them are valid while the
/// library that defines the group is loaded.
class GroupInfo {
 public:
  [[nodiscard]] constexpr const char* name() const noexcept { return name_; }
  [[nodiscard]] constexpr const char* title() const noexcept { return title_; }

  /// The full name of variable `index` < size(): "btl_sm_fbox_size".  Variables of the group "core" have no prefix.
  [[nodiscard]] OPAL_EXPORT std::string full_name(std::size_t index) const;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  [[nodiscard]] virtual VarInfo var(std::size_t index) const noexcept = 0;  ///< index < size()
  [[nodiscard]] virtual Value default_value(std::size_t index) const = 0;   ///< index < size()

 protected:
  constexpr GroupInfo(const char* name, const char* title) noexcept : name_(name), title_(title) {}
  ~GroupInfo() = default;
  GroupInfo(const GroupInfo&) = default;
  GroupInfo& operator=(const GroupInfo&) = default;

 private:
  const char* name_;
  const char* title_;
};

/// A library above libopal exports this function under the name kListGroupsSymbol, so that opal-info lists its groups:
///   extern "C" OPAL_EXPORT const config::GroupInfo* const* opal_config_groups(std::size_t* count) noexcept;
/// It returns an array of `*count` groups, valid while the library is loaded.
using ListGroups = const GroupInfo* const* (*)(std::size_t* count) noexcept;
inline constexpr const char* kListGroupsSymbol = "opal_config_groups";

/// The variables of struct C.
template <class C>
class Group final : public GroupInfo {
 public:
  template <std::size_t N>
  constexpr Group(const char* name, const char* title, const Var<C> (&vars)[N]) noexcept
      : GroupInfo(name, title), vars_(vars) {}

  [[nodiscard]] std::size_t size() const noexcept override { return vars_.size(); }

  [[nodiscard]] VarInfo var(std::size_t index) const noexcept override {
    const Var<C>& row = vars_[index];
    return {row.name, static_cast<Type>(row.member.index()), row.level, row.doc, row.range, row.unit};
  }

  [[nodiscard]] Value default_value(std::size_t index) const override {
    const C defaults{};
    return read(defaults, vars_[index].member);
  }

  /// Stores `value` into the member of variable `index`.  Requires: `value` has the type of the variable.
  [[gnu::noinline]] void assign(C& config, std::size_t index, const Value& value) const {
    std::visit([&]<class T>(T C::*member) { config.*member = std::get<T>(value); }, vars_[index].member);
  }

 private:
  // Not inlined, like assign(): g++ 12 otherwise warns of accesses beyond the end of a small C, through the pointer
  // types of which this C has no member.
  [[gnu::noinline]] static Value read(const C& config, const Member<C>& member) {
    return std::visit([&](auto pointer) { return Value{config.*pointer}; }, member);
  }

  std::span<const Var<C>> vars_;
};

}  // namespace opal::config
