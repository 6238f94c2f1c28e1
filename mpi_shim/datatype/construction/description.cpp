// SPDX-License-Identifier: Apache-2.0
// Format, in 64-bit words: number of nodes | for each node { combiner | lengths of the three lists | integers |
// addresses | parts }.  A node is a derived type.  A part is the number of an earlier node, or -1 minus the handle of a
// predefined type.
#include "mpi_shim/datatype/construction/description.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "mpi_shim/datatype/construction/arguments.hpp"
#include "mpi_shim/datatype/construction/predefined.hpp"

namespace mpi_shim::datatype {
namespace {

using opal::Errc;
using opal::Error;
using opal::Result;

constexpr int kMostLevels = 256;  // limit for nested types, whose destructors are recursive and could exhaust the stack

class Writer {
 public:
  std::int64_t add(const Datatype& type) {
    if (const std::uintptr_t named = type.predefined_handle()) return -1 - static_cast<std::int64_t>(named);
    if (const auto known = nodes_.find(&type); known != nodes_.end()) return known->second;
    const Recipe& recipe = type.recipe();
    std::vector<std::int64_t> parts;
    for (const DatatypeRef& part : recipe.types) parts.push_back(add(*part));
    words_.push_back(static_cast<int>(recipe.combiner));
    for (const std::size_t size : {recipe.integers.size(), recipe.addresses.size(), parts.size()}) {
      words_.push_back(static_cast<std::int64_t>(size));
    }
    for (const Counts list : {Counts{recipe.integers}, Counts{recipe.addresses}, Counts{parts}}) {
      words_.insert(words_.end(), list.begin(), list.end());
    }
    const auto number = static_cast<std::int64_t>(nodes_.size());
    nodes_.emplace(&type, number);
    return number;
  }

  std::vector<std::byte> finish() {
    words_[0] = static_cast<std::int64_t>(nodes_.size());
    std::vector<std::byte> bytes(words_.size() * sizeof words_[0]);
    std::memcpy(bytes.data(), words_.data(), bytes.size());
    return bytes;
  }

 private:
  std::vector<std::int64_t> words_{0};
  std::unordered_map<const Datatype*, std::int64_t> nodes_;
};

Error garbled() { return {Errc::protocol, 0, "the description of a datatype is garbled"}; }

}  // namespace

std::vector<std::byte> describe(const Datatype& type) {
  Writer writer;
  writer.add(type);
  return writer.finish();
}

Result<DatatypeRef> from_description(opal::ByteSpan bytes) {
  std::vector<std::int64_t> words(bytes.size() / sizeof(std::int64_t));
  if (words.size() * sizeof(std::int64_t) != bytes.size() || words.empty()) return garbled();
  std::memcpy(words.data(), bytes.data(), bytes.size());
  Arguments left{words};
  const std::int64_t count = left.next();
  std::vector<DatatypeRef> nodes;
  std::vector<int> levels;
  while (!left.empty()) {
    Recipe recipe;
    recipe.combiner = static_cast<Combiner>(left.next());
    const std::array<std::int64_t, 3> sizes{left.next(), left.next(), left.next()};
    const auto list = [&](std::int64_t size) {
      const Counts taken = left.list(size);
      return std::vector<std::int64_t>{taken.begin(), taken.end()};
    };
    recipe.integers = list(sizes[0]);
    recipe.addresses = list(sizes[1]);
    const Counts part_words = left.list(sizes[2]);
    if (!left.sufficed()) return garbled();
    int level = 0;
    for (const std::int64_t word : part_words) {
      if (word >= 0 && static_cast<std::uint64_t>(word) < nodes.size()) {
        recipe.types.push_back(nodes[static_cast<std::size_t>(word)]);
        level = std::max(level, levels[static_cast<std::size_t>(word)] + 1);
      } else if (Datatype* named = word < 0 ? predefined(static_cast<std::uintptr_t>(-(word + 1))) : nullptr) {
        recipe.types.push_back(DatatypeRef::share(*named));
      } else {
        return garbled();
      }
    }
    if (level > kMostLevels) return Error{Errc::limit_reached, 0, "levels of a described datatype"};
    OPAL_TRY_ASSIGN(DatatypeRef made, construct(std::move(recipe)));
    made->set_findable(false, Datatype::kKind);  // the application has no handle of it
    nodes.push_back(std::move(made));
    levels.push_back(level);
  }
  if (nodes.empty() || static_cast<std::int64_t>(nodes.size()) != count) return garbled();
  nodes.back()->commit();
  return nodes.back();
}

}  // namespace mpi_shim::datatype
