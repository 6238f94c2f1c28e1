// SPDX-License-Identifier: Apache-2.0
#include "opal/am/groups.hpp"

#include "opal/am/config.hpp"
#include "opal/core/config/core_config.hpp"
#include "opal/gpu/config.hpp"
#include "opal/memory/config.hpp"
#include "opal/mpool/config.hpp"
#include "opal/rcache/config.hpp"

namespace opal::am {

std::vector<const config::GroupInfo*> config_groups(const btl::Registry& registry) {
  std::vector<const config::GroupInfo*> groups{&config::kCoreGroup, &kGroup};
  for (const btl::Component* component : registry.components()) {
    if (component->vars != nullptr) groups.push_back(component->vars);
  }
  groups.push_back(&gpu::kGroup);
  groups.push_back(&memory::kGroup);
  groups.push_back(&mpool::kGroup);
  groups.push_back(&rcache::kGroup);
  return groups;
}

}  // namespace opal::am
