// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/signature.hpp"

namespace mpi_shim::datatype {

std::int64_t repetitions(const Recipe& recipe, std::size_t index, std::int64_t size) noexcept {
  if (recipe.combiner == Combiner::structure) return recipe.integers[index + 1];  // after the number of parts
  const std::int64_t part = recipe.types[index]->size();
  return part == 0 ? 0 : size / part;
}

Signature signature_of(const Recipe& recipe, std::int64_t size) noexcept {
  Signature sum;
  for (std::size_t i = 0; i < recipe.types.size(); ++i) {
    const Signature& part = recipe.types[i]->signature();
    const std::int64_t count = repetitions(recipe, i, size);
    if (count == 0 || part.elements == 0) continue;
    if (sum.elements == 0) {
      sum.uniform = part.uniform;
    } else if (sum.uniform != part.uniform) {
      sum.uniform.reset();
    }
    sum.elements += count * part.elements;
    sum.external += count * part.external;
  }
  return sum;
}

ElementCount elements_in(const Datatype& type, std::int64_t bytes) noexcept {
  ElementCount found{0, bytes};
  const Datatype* inner = &type;  // consecutive instances of it begin with the rest
  while (inner->size() != 0) {
    found.elements += found.rest / inner->size() * inner->signature().elements;
    found.rest %= inner->size();
    if (found.rest == 0) return found;
    if (const auto element = inner->element()) {
      const ElementInfo& facts = info(*element);
      const std::int64_t value = info(facts.first).size;
      if (facts.element_class == ElementClass::pair && found.rest >= value) {  // the value of a pair, without its index
        ++found.elements;
        found.rest -= value;
      }
      return found;
    }
    // The rest is shorter than an instance, so it ends in one of the parts.
    const Recipe& recipe = inner->recipe();
    for (std::size_t i = 0;; ++i) {
      const Datatype& part = *recipe.types[i];
      const std::int64_t count = repetitions(recipe, i, inner->size());
      if (found.rest < count * part.size()) {
        inner = &part;
        break;
      }
      found.elements += count * part.signature().elements;
      found.rest -= count * part.size();
    }
  }
  return found;
}

}  // namespace mpi_shim::datatype
