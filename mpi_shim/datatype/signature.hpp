// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/signature.hpp — the type signature of a datatype: its elements in the order of the message.  It
// follows from the recipe: a struct consists of its parts, any other derived type of repetitions of its one part.
// Threads: safe from any thread.
#pragma once
#include <cstdint>

#include "mpi_shim/datatype/datatype.hpp"

namespace mpi_shim::datatype {

/// The sums over the parts of a derived type of `size` bytes.
Signature signature_of(const Recipe& recipe, std::int64_t size) noexcept;

/// The number of instances of recipe.types[index], one after the other, in a derived type of `size` bytes.
std::int64_t repetitions(const Recipe& recipe, std::size_t index, std::int64_t size) noexcept;

/// The result of elements_in().
struct ElementCount {
  std::int64_t elements = 0;
  std::int64_t rest = 0;  ///< bytes after the last whole element
};

/// The number of whole elements in the first `bytes` bytes of consecutive instances; a pair counts as two.
ElementCount elements_in(const Datatype& type, std::int64_t bytes) noexcept;

/// Equal elements in a row.
struct ElementRun {
  Element element;
  std::int64_t count;
  std::int64_t external;  ///< bytes of one element in "external32"
};

/// Calls visit(ElementRun) for the elements of `count` instances in order.  Neighbouring runs may have the same
/// element.
template <class Visit>
void for_each_run(const Datatype& type, std::int64_t count, Visit&& visit) {
  if (type.size() == 0) return;
  if (type.element()) return visit(ElementRun{*type.element(), count, type.signature().external});
  const Recipe& recipe = type.recipe();
  if (recipe.types.size() == 1) {
    return for_each_run(*recipe.types[0], count * repetitions(recipe, 0, type.size()), visit);
  }
  for (; count > 0; --count) {
    for (std::size_t i = 0; i < recipe.types.size(); ++i) {
      for_each_run(*recipe.types[i], repetitions(recipe, i, type.size()), visit);
    }
  }
}

}  // namespace mpi_shim::datatype
