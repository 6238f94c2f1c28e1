// SPDX-License-Identifier: Apache-2.0
// Reductions of which every rank gets another part, on one host: scans and reduce-scatters.
#include <algorithm>
#include <cstring>

#include "mpi_shim/coll/host_team_steps.hpp"
#include "mpi_shim/coll/on_host.hpp"

namespace mpi_shim::coll {

HostTeam::Outcome HostTeam::scan(const Buffer& from, const Buffer& to, const op::Op& op, bool exclusive) {
  if (!one_host() || !takes(from, op)) return std::nullopt;
  const bool gets = !exclusive || board_.rank() != 0;
  OnHost in{from, OnHost::Use::read};
  OnHost out{to, gets ? OnHost::Use::write : OnHost::Use::read};
  if (in.failed()) board_.spoil();
  return in.finish(out.finish(scan_here(in.buffer(), out.buffer().base(), op, exclusive)));
}

/// Along the ranks: each takes the result of the one before it out of its slot and puts its own into its slot, while
/// the others are at other pieces.
int HostTeam::scan_here(const Buffer& in, std::byte* out, const op::Op& op, bool exclusive) {
  if (in.bytes() == 0) return MPI_SUCCESS;
  const int rank = board_.rank();
  const bool last = rank == board_.size() - 1;
  const auto element = static_cast<std::uint64_t>(in.type().size());
  const std::uint64_t most = board_.slot_bytes() / element;
  for (std::uint64_t first = 0; first < in.count(); first += most) {
    const Buffer piece = in.part(first, std::min(most, in.count() - first));
    std::byte* const result = out + first * element;
    board_.begin(piece.bytes());
    std::byte* sum = result;  // of the ranks up to this one
    if (!last) {
      OPAL_MPI_STEP(board_.claim());
      sum = board_.slot(rank);
    }
    const bool needs_sum = !last || !exclusive;
    if (needs_sum && sum != piece.base()) std::memcpy(sum, piece.base(), piece.bytes());
    if (rank != 0) {
      OPAL_MPI_STEP(board_.await(rank - 1));
      if (needs_sum) op.apply(board_.slot(rank - 1), sum, static_cast<std::int64_t>(piece.count()), in.type());
    }
    if (!last) board_.arrive();
    if (exclusive && rank != 0) std::memcpy(result, board_.slot(rank - 1), piece.bytes());
    if (!exclusive && sum != result) std::memcpy(result, sum, piece.bytes());
  }
  return MPI_SUCCESS;
}

HostTeam::Outcome HostTeam::reduce_scatter(const Buffer& from, const Buffer& to, std::span<const std::uint64_t> counts,
                                           const op::Op& op) {
  if (!one_host() || !takes(from, op)) return std::nullopt;
  if (from.bytes() == 0) return MPI_SUCCESS;
  // A slot holds a piece of every rank's part.
  const std::uint64_t most = board_.slot_bytes() / static_cast<std::uint64_t>(from.type().size()) / counts.size();
  if (most == 0) return std::nullopt;
  OnHost in{from, OnHost::Use::read};
  OnHost out{to, OnHost::Use::write};
  if (in.failed()) board_.spoil();
  return in.finish(out.finish(reduce_scatter_here(in.buffer(), out.buffer().base(), counts, op, most)));
}

/// In place the result of a piece overwrites elements that are in the slots by then: an element's place in its rank's
/// part is not behind its place in the whole.
int HostTeam::reduce_scatter_here(const Buffer& in, std::byte* out, std::span<const std::uint64_t> counts,
                                  const op::Op& op, std::uint64_t most) {
  const int rank = board_.rank();
  const auto element = static_cast<std::uint64_t>(in.type().size());
  const std::uint64_t own = counts[static_cast<std::size_t>(rank)];
  const std::uint64_t longest = *std::max_element(counts.begin(), counts.end());
  for (std::uint64_t first = 0; first < longest; first += most) {
    const auto size_of = [&](std::uint64_t count) { return first < count ? std::min(most, count - first) : 0; };
    const std::uint64_t bytes = size_of(longest) * element;  // of each rank's part in a slot
    board_.begin(bytes * counts.size());
    OPAL_MPI_STEP(board_.claim());
    std::byte* to = board_.slot(rank);
    std::uint64_t start = 0;
    for (const std::uint64_t count : counts) {
      if (first < count) std::memcpy(to, in.base() + (start + first) * element, size_of(count) * element);
      to += bytes;
      start += count;
    }
    board_.arrive();
    if (first >= own) continue;
    OPAL_MPI_STEP(board_.await_all());
    const std::uint64_t offset = static_cast<std::uint64_t>(rank) * bytes;
    combine({board_.slot(rank) + offset, size_of(own), in.type()}, offset, out + first * element, op);
  }
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::coll
