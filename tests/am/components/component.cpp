// SPDX-License-Identifier: Apache-2.0
// A loadable component, compiled once for each case of component_path_test.  -D names what is wrong with it.
#include "opal/btl/component_record.hpp"

#ifdef UNRESOLVED
extern "C" int opal_test_missing_function();
extern "C" OPAL_EXPORT int opal_test_caller();
int opal_test_caller() { return opal_test_missing_function(); }
#endif

#ifndef NAME
#define NAME "outside"
#endif
#ifndef ABI
#define ABI opal::btl::kComponentAbi
#endif
#ifndef COMPONENT
#define COMPONENT &kComponent
#endif
#ifndef GROUP
#define GROUP "btl_outside"
#endif

namespace {

struct Config {
  std::uint32_t depth = 3;
};
[[maybe_unused]] constexpr opal::config::Var<Config> kVars[] = {
    {"depth", &Config::depth, opal::config::Level::user, "Any number.", {.min = 1, .max = 9}}};
[[maybe_unused]] constexpr opal::config::Group<Config> kGroup{GROUP, "A transport of a test", kVars};

[[maybe_unused]] constinit const opal::btl::Component kComponent{
    .name = NAME,
    .summary = "A transport of a test",
#ifndef MINIMAL  // it leaves every field with a default unset
    .vars = &kGroup,
    .open = [](const opal::btl::ModuleParameters&,
               const opal::config::Store& store) -> opal::Result<opal::btl::Modules> {
      OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
      return opal::Error{opal::Errc::not_supported, 0, "outside: a depth opens nothing", config.depth};
    },
#endif
};

}  // namespace

#ifndef NO_RECORD
const opal::btl::ComponentRecord opal_component{.abi = ABI, .component = COMPONENT};
#endif
