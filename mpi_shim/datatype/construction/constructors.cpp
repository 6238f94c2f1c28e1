// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/construction/constructors.hpp"

#include <vector>

#include "mpi_shim/datatype/checked.hpp"
#include "mpi_shim/datatype/construction/assembly.hpp"

namespace mpi_shim::datatype {
namespace {

using opal::Errc;
using opal::Error;
using opal::Result;

Recipe recipe(Combiner combiner, std::vector<std::int64_t> integers, std::vector<std::int64_t> addresses,
              std::initializer_list<Datatype*> parts) {
  Recipe made{combiner, std::move(integers), std::move(addresses), {}};
  for (Datatype* part : parts) made.types.push_back(DatatypeRef::share(*part));
  return made;
}

// {n, a..., b...}: how the standard's table lays out lists in the integers of get_contents.
std::vector<std::int64_t> listed(std::int64_t head, Counts a, Counts b = {}) {
  std::vector<std::int64_t> all{head};
  all.insert(all.end(), a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

std::vector<std::int64_t> copied(Counts values) { return {values.begin(), values.end()}; }

Error negative(const char* what, std::int64_t value) {
  return {Errc::invalid_argument, 0, what, static_cast<std::uint64_t>(value)};
}

Error too_large(const char* what) { return {Errc::limit_reached, 0, what}; }

Result<void> check_lengths(Counts lengths, std::size_t displacements) {
  if (lengths.size() != displacements)
    return Error{Errc::invalid_argument, 0, "the numbers of block lengths and displacements differ"};
  for (const std::int64_t length : lengths) {
    if (length < 0) return negative("block length >= 0", length);
  }
  return {};
}

// Displacements in bytes from displacements in extents.
Result<std::vector<std::int64_t>> scaled(Counts displacements, std::int64_t extent) {
  std::vector<std::int64_t> bytes(displacements.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!multiply_checked(displacements[i], extent, bytes[i])) return too_large("displacement * extent");
  }
  return bytes;
}

Result<DatatypeRef> strided(std::int64_t count, std::int64_t block_length, std::int64_t stride, Datatype& part,
                            Recipe made) {
  if (count < 0) return negative("count >= 0", count);
  if (block_length < 0) return negative("block length >= 0", block_length);
  Assembly assembly;
  assembly.add(part, block_length, 0);
  assembly.repeat(count, stride);
  return std::move(assembly).finish(std::move(made));
}

Result<DatatypeRef> listed_blocks(Counts lengths, Counts displacements, Datatype& part, Recipe made) {
  Assembly assembly;
  for (std::size_t i = 0; i < displacements.size(); ++i) assembly.add(part, lengths[i], displacements[i]);
  return std::move(assembly).finish(std::move(made));
}

Result<DatatypeRef> equal_blocks(std::int64_t length, Counts displacements, Datatype& part, Recipe made) {
  Assembly assembly;
  for (const std::int64_t displacement : displacements) assembly.add(part, length, displacement);
  return std::move(assembly).finish(std::move(made));
}

}  // namespace

Result<DatatypeRef> contiguous(std::int64_t count, Datatype& part) {
  if (count < 0) return negative("count >= 0", count);
  Assembly assembly;
  assembly.add(part, count, 0);
  return std::move(assembly).finish(recipe(Combiner::contiguous, {count}, {}, {&part}));
}

Result<DatatypeRef> vector(std::int64_t count, std::int64_t block_length, std::int64_t stride, Datatype& part) {
  std::int64_t bytes = 0;
  if (!multiply_checked(stride, part.extent(), bytes)) return too_large("stride * extent");
  return strided(count, block_length, bytes, part,
                 recipe(Combiner::vector, {count, block_length, stride}, {}, {&part}));
}

Result<DatatypeRef> hvector(std::int64_t count, std::int64_t block_length, std::int64_t stride, Datatype& part) {
  return strided(count, block_length, stride, part,
                 recipe(Combiner::hvector, {count, block_length}, {stride}, {&part}));
}

Result<DatatypeRef> indexed(Counts block_lengths, Counts displacements, Datatype& part) {
  OPAL_TRY(check_lengths(block_lengths, displacements.size()));
  OPAL_TRY_ASSIGN(const auto bytes, scaled(displacements, part.extent()));
  const auto n = static_cast<std::int64_t>(displacements.size());
  return listed_blocks(block_lengths, bytes, part,
                       recipe(Combiner::indexed, listed(n, block_lengths, displacements), {}, {&part}));
}

Result<DatatypeRef> hindexed(Counts block_lengths, Counts displacements, Datatype& part) {
  OPAL_TRY(check_lengths(block_lengths, displacements.size()));
  const auto n = static_cast<std::int64_t>(displacements.size());
  return listed_blocks(block_lengths, displacements, part,
                       recipe(Combiner::hindexed, listed(n, block_lengths), copied(displacements), {&part}));
}

Result<DatatypeRef> indexed_block(std::int64_t block_length, Counts displacements, Datatype& part) {
  if (block_length < 0) return negative("block length >= 0", block_length);
  OPAL_TRY_ASSIGN(const auto bytes, scaled(displacements, part.extent()));
  const auto n = static_cast<std::int64_t>(displacements.size());
  const std::int64_t head[] = {block_length};
  return equal_blocks(block_length, bytes, part,
                      recipe(Combiner::indexed_block, listed(n, head, displacements), {}, {&part}));
}

Result<DatatypeRef> hindexed_block(std::int64_t block_length, Counts displacements, Datatype& part) {
  if (block_length < 0) return negative("block length >= 0", block_length);
  const auto n = static_cast<std::int64_t>(displacements.size());
  return equal_blocks(block_length, displacements, part,
                      recipe(Combiner::hindexed_block, {n, block_length}, copied(displacements), {&part}));
}

Result<DatatypeRef> structure(Counts block_lengths, Counts displacements, std::span<Datatype* const> parts) {
  OPAL_TRY(check_lengths(block_lengths, displacements.size()));
  if (parts.size() != displacements.size())
    return Error{Errc::invalid_argument, 0, "the numbers of types and displacements differ"};
  Recipe made = recipe(Combiner::structure, listed(static_cast<std::int64_t>(parts.size()), block_lengths),
                       copied(displacements), {});
  Assembly assembly;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    assembly.add(*parts[i], block_lengths[i], displacements[i]);
    made.types.push_back(DatatypeRef::share(*parts[i]));
  }
  return std::move(assembly).finish(std::move(made));
}

Result<DatatypeRef> resized(Datatype& part, std::int64_t lb, std::int64_t extent) {
  std::int64_t ub = 0;
  if (!add_checked(lb, extent, ub)) return too_large("lower bound + extent");
  Assembly assembly;
  assembly.add(part, 1, 0);
  assembly.set_markers(lb, ub);
  return std::move(assembly).finish(recipe(Combiner::resized, {}, {lb, extent}, {&part}));
}

Result<DatatypeRef> dup(Datatype& part) {
  OPAL_TRY_ASSIGN(DatatypeRef copy, handle::create<Datatype>(part.bounds(), part.layout(), part.signature(),
                                                             recipe(Combiner::dup, {}, {}, {&part})));
  if (part.is_committed()) copy->commit();
  return copy;
}

Result<DatatypeRef> subarray(Counts sizes, Counts subsizes, Counts starts, Order order, Datatype& part) {
  const std::size_t dimensions = sizes.size();
  if (dimensions == 0 || subsizes.size() != dimensions || starts.size() != dimensions) {
    return Error{Errc::invalid_argument, 0, "no dimension, or lists of different lengths"};
  }
  Assembly assembly;
  std::int64_t step = part.extent();  // bytes between neighbours in the dimension at hand
  std::int64_t start = 0;             // bytes from the array to the section
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::size_t d = order == Order::fortran ? i : dimensions - 1 - i;  // fastest first
    if (sizes[d] < 1 || subsizes[d] < 1 || starts[d] < 0 || subsizes[d] > sizes[d] ||
        starts[d] > sizes[d] - subsizes[d]) {
      return Error{Errc::invalid_argument, 0, "the section is not inside its array", d};
    }
    if (i == 0) {
      assembly.add(part, subsizes[d], 0);
    } else {
      assembly.repeat(subsizes[d], step);
    }
    std::int64_t skipped = 0;
    if (!multiply_checked(starts[d], step, skipped) || !add_checked(start, skipped, start) ||
        !multiply_checked(step, sizes[d], step)) {
      return too_large("size of an array");
    }
  }
  assembly.shift(start);
  assembly.set_markers(0, step);
  std::vector<std::int64_t> integers = listed(static_cast<std::int64_t>(dimensions), sizes, subsizes);
  integers.insert(integers.end(), starts.begin(), starts.end());
  integers.push_back(static_cast<int>(order));
  return std::move(assembly).finish(recipe(Combiner::subarray, std::move(integers), {}, {&part}));
}

}  // namespace mpi_shim::datatype
