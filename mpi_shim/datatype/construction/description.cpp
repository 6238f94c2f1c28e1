// SPDX-License-Identifier: Apache-2.0
// Layout, in 64-bit words: number of nodes | for each { combiner | counts of the three lists | integers | addresses |
// parts }.  A part is the number of an earlier node, or -1 minus the handle of a predefined type.
#include "mpi_shim/datatype/construction/description.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "mpi_shim/datatype/construction/constructors.hpp"
#include "mpi_shim/datatype/construction/fortran_kinds.hpp"
#include "mpi_shim/datatype/construction/predefined.hpp"

namespace mpi_shim::datatype {
namespace {

using opal::Errc;
using opal::Error;
using opal::Result;

constexpr int kMostLevels = 256;  // of types made of types: what is nested deeper could exhaust the stack when it ends

class Writer {
 public:
  std::int64_t add(const Datatype& type) {
    if (const std::uintptr_t named = predefined_handle(type)) return -1 - static_cast<std::int64_t>(named);
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

/// A constructor's arguments as its recipe lists them, taken from the front.
class Arguments {
 public:
  explicit Arguments(Counts words) noexcept : words_(words) {}
  /// False: there are not so many.
  bool take(std::int64_t count, Counts& list) noexcept {
    if (count < 0 || static_cast<std::uint64_t>(count) > words_.size()) return false;
    list = words_.first(static_cast<std::size_t>(count));
    words_ = words_.subspan(static_cast<std::size_t>(count));
    return true;
  }
  bool take(std::int64_t& word) noexcept {
    if (words_.empty()) return false;
    word = words_.front();
    words_ = words_.subspan(1);
    return true;
  }
  [[nodiscard]] bool empty() const noexcept { return words_.empty(); }

 private:
  Counts words_;
};

bool read_order(Arguments& integers, Order& order) noexcept {
  std::int64_t word = 0;
  if (!integers.take(word) || (word != static_cast<int>(Order::c) && word != static_cast<int>(Order::fortran)))
    return false;
  order = static_cast<Order>(word);
  return true;
}

Result<DatatypeRef> make_darray(Arguments integers, Datatype& part) {
  DistributedArray array{};
  std::int64_t dimensions = 0;
  Counts distributions;
  if (!integers.take(array.processes) || !integers.take(array.rank) || !integers.take(dimensions) ||
      !integers.take(dimensions, array.sizes) || !integers.take(dimensions, distributions) ||
      !integers.take(dimensions, array.arguments) || !integers.take(dimensions, array.grid_sizes) ||
      !read_order(integers, array.order)) {
    return garbled();
  }
  std::vector<Distribution> kinds;
  for (const std::int64_t kind : distributions) {
    if (kind < static_cast<int>(Distribution::none) || kind > static_cast<int>(Distribution::cyclic)) return garbled();
    kinds.push_back(static_cast<Distribution>(kind));
  }
  array.distributions = kinds;
  return darray(array, part);
}

/// Calls the constructor.
Result<DatatypeRef> make(std::int64_t combiner, Arguments integers, Counts addresses,
                         std::span<Datatype* const> parts) {
  if (combiner == static_cast<int>(Combiner::structure)) {
    std::int64_t count = 0;
    Counts lengths;
    if (!integers.take(count) || !integers.take(count, lengths)) return garbled();
    return structure(lengths, addresses, parts);
  }
  if (parts.size() != 1) return garbled();
  Datatype& part = *parts[0];
  std::int64_t count = 0;
  std::int64_t length = 0;
  std::int64_t stride = 0;
  Counts lengths;
  Counts displacements;
  switch (static_cast<Combiner>(combiner)) {
    case Combiner::dup: return dup(part);
    case Combiner::contiguous:
      if (!integers.take(count)) return garbled();
      return contiguous(count, part);
    case Combiner::vector:
      if (!integers.take(count) || !integers.take(length) || !integers.take(stride)) return garbled();
      return vector(count, length, stride, part);
    case Combiner::hvector:
      if (!integers.take(count) || !integers.take(length) || addresses.size() != 1) return garbled();
      return hvector(count, length, addresses[0], part);
    case Combiner::indexed:
      if (!integers.take(count) || !integers.take(count, lengths) || !integers.take(count, displacements))
        return garbled();
      return indexed(lengths, displacements, part);
    case Combiner::hindexed:
      if (!integers.take(count) || !integers.take(count, lengths)) return garbled();
      return hindexed(lengths, addresses, part);
    case Combiner::indexed_block:
      if (!integers.take(count) || !integers.take(length) || !integers.take(count, displacements)) return garbled();
      return indexed_block(length, displacements, part);
    case Combiner::hindexed_block:
      if (!integers.take(count) || !integers.take(length)) return garbled();
      return hindexed_block(length, addresses, part);
    case Combiner::resized:
      if (addresses.size() != 2) return garbled();
      return resized(part, addresses[0], addresses[1]);
    case Combiner::subarray: {
      Counts sizes;
      Counts subsizes;
      Counts starts;
      Order order{};
      if (!integers.take(count) || !integers.take(count, sizes) || !integers.take(count, subsizes) ||
          !integers.take(count, starts) || !read_order(integers, order)) {
        return garbled();
      }
      return subarray(sizes, subsizes, starts, order, part);
    }
    case Combiner::darray: return make_darray(integers, part);
    default: return garbled();
  }
}

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
  std::int64_t count = 0;
  if (!left.take(count) || count < 1) return garbled();
  std::vector<DatatypeRef> nodes;
  std::vector<int> levels;
  while (!left.empty()) {
    std::int64_t combiner = 0;
    std::int64_t sizes[3];
    Counts integers;
    Counts addresses;
    Counts part_words;
    if (!left.take(combiner) || !left.take(sizes[0]) || !left.take(sizes[1]) || !left.take(sizes[2]) ||
        !left.take(sizes[0], integers) || !left.take(sizes[1], addresses) || !left.take(sizes[2], part_words)) {
      return garbled();
    }
    std::vector<Datatype*> parts;
    int level = 0;
    for (const std::int64_t word : part_words) {
      if (word >= 0 && static_cast<std::uint64_t>(word) < nodes.size()) {
        parts.push_back(nodes[static_cast<std::size_t>(word)].get());
        level = std::max(level, levels[static_cast<std::size_t>(word)] + 1);
      } else if (Datatype* named = word < 0 ? predefined(static_cast<std::uintptr_t>(-(word + 1))) : nullptr) {
        parts.push_back(named);
      } else {
        return garbled();
      }
    }
    if (level > kMostLevels) return Error{Errc::limit_reached, 0, "levels of a described datatype"};
    OPAL_TRY_ASSIGN(DatatypeRef made, make(combiner, Arguments{integers}, addresses, parts));
    made->set_findable(false, Datatype::kKind);  // the program has no handle of it
    nodes.push_back(std::move(made));
    levels.push_back(level);
  }
  if (static_cast<std::int64_t>(nodes.size()) != count) return garbled();
  nodes.back()->commit();
  return nodes.back();
}

}  // namespace mpi_shim::datatype
