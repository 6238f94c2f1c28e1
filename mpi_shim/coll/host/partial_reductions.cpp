// SPDX-License-Identifier: Apache-2.0
// Scans of a HostTeam, on one host only, and reduce-scatters.  Across hosts these require that the ranks of each host
// are consecutive; the leaders then exchange only the combined values of their hosts.
#include <algorithm>
#include <numeric>

#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/host/team_steps.hpp"
#include "mpi_shim/coll/on_host.hpp"
#include "opal/core/copy.hpp"

namespace mpi_shim::coll {

HostTeam::Outcome HostTeam::scan(const Buffer& from, const Buffer& to, const op::Op& op, bool exclusive) {
  if (!one_host() || !takes(from, op)) return std::nullopt;
  const bool gets = !exclusive || comm_.rank() != 0;
  OnHost in{from, OnHost::Use::read};
  OnHost out{to, gets ? OnHost::Use::write : OnHost::Use::read};
  return scan_here(in.buffer(), out.buffer().base(), op, exclusive);
}

/// A pipeline along the ranks: each rank combines the previous rank's slot with its own piece into its own slot, while
/// other ranks process other pieces.
int HostTeam::scan_here(const Buffer& in, std::byte* out, const op::Op& op, bool exclusive) {
  if (in.bytes() == 0) return MPI_SUCCESS;
  const int rank = segment_.rank();
  const bool last = rank == segment_.size() - 1;
  const auto element = static_cast<std::uint64_t>(in.type().size());
  const std::uint64_t most = segment_.slot_bytes() / element;
  for (std::uint64_t first = 0; first < in.count(); first += most) {
    const Buffer piece = in.part(first, std::min(most, in.count() - first));
    std::byte* const result = out + first * element;
    segment_.begin(piece.bytes());
    std::byte* sum = result;  // the result over the ranks up to this one
    if (!last) {
      OPAL_MPI_STEP(segment_.claim());
      sum = segment_.slot(rank);
    }
    const bool needs_sum = !last || !exclusive;
    if (needs_sum && sum != piece.base()) opal::copy_host_memory(sum, piece.base(), piece.bytes());
    if (rank != 0) {
      OPAL_MPI_STEP(segment_.await(rank - 1));
      if (needs_sum) op.apply(segment_.slot(rank - 1), sum, static_cast<std::int64_t>(piece.count()), in.type());
    }
    if (!last) segment_.arrive();
    if (exclusive && rank != 0) opal::copy_host_memory(result, segment_.slot(rank - 1), piece.bytes());
    if (!exclusive && sum != result) opal::copy_host_memory(result, sum, piece.bytes());
  }
  return MPI_SUCCESS;
}

HostTeam::Outcome HostTeam::reduce_scatter(const Buffer& from, const Buffer& to, std::span<const std::uint64_t> counts,
                                           const op::Op& op) {
  if (!(one_host() || hosts_.in_order) || !takes(from, op)) return std::nullopt;
  if (from.bytes() == 0) return MPI_SUCCESS;
  // A slot holds a piece of every rank's part.
  const std::uint64_t most = segment_.slot_bytes() / static_cast<std::uint64_t>(from.type().size()) / counts.size();
  if (one_host() && most == 0) return std::nullopt;
  OnHost in{from, OnHost::Use::read};
  OnHost out{to, OnHost::Use::write};
  std::byte* const result = out.buffer().base();
  return one_host() ? reduce_scatter_here(in.buffer(), result, counts, op, most)
                    : reduce_scatter_between(in.buffer(), result, counts, op);
}

/// Each host reduces to its leader, the leaders run a reduce-scatter, and each leader passes the parts to its host.
int HostTeam::reduce_scatter_between(const Buffer& in, std::byte* out, std::span<const std::uint64_t> counts,
                                     const op::Op& op) {
  const bool leads = segment_.rank() == 0;
  const auto element = static_cast<std::uint64_t>(in.type().size());
  std::vector<std::uint64_t> of_hosts(hosts_.ranks.size());
  for (std::size_t rank = 0; rank < counts.size(); ++rank) of_hosts[at(hosts_.of_rank[rank])] += counts[rank];
  const std::uint64_t here = of_hosts[at(own_host())];
  std::byte* const whole = leads ? packed(in.bytes() + here * element) : nullptr;
  std::byte* const parts = leads ? whole + in.bytes() : nullptr;
  OPAL_MPI_STEP(reduce_here(in, whole, op, 0));
  OPAL_MPI_STEP(among(hosts_.leaders, [&](Schedule& schedule) {
    build_reduce_scatter(schedule, in.at(whole), {parts, here, in.type()}, of_hosts, op);
  }));
  // The bytes [begin, end) of this rank's part in the parts of its host.
  const auto first = counts.begin() + hosts_.here.front();
  const std::uint64_t begin = std::accumulate(first, first + segment_.rank(), std::uint64_t{0}) * element;
  const std::uint64_t end = begin + first[segment_.rank()] * element;
  for (std::uint64_t offset = 0; offset < here * element; offset += segment_.slot_bytes()) {
    const std::uint64_t bytes = piece(here * element, offset);
    OPAL_MPI_STEP(
        segment_.fill_by(0, bytes, [&](std::byte* slot) { opal::copy_host_memory(slot, parts + offset, bytes); }));
    const std::uint64_t from = std::max(begin, offset);
    const std::uint64_t to = std::min(end, offset + bytes);
    if (from < to) opal::copy_host_memory(out + (from - begin), segment_.slot(0) + (from - offset), to - from);
  }
  return MPI_SUCCESS;
}

/// With MPI_IN_PLACE the result of a piece overwrites only elements that are already in the slots, since the offset of
/// an element in its rank's part is not larger than its offset in `in`.
int HostTeam::reduce_scatter_here(const Buffer& in, std::byte* out, std::span<const std::uint64_t> counts,
                                  const op::Op& op, std::uint64_t most) {
  const int rank = segment_.rank();
  const auto element = static_cast<std::uint64_t>(in.type().size());
  const std::uint64_t own = counts[static_cast<std::size_t>(rank)];
  const std::uint64_t longest = *std::max_element(counts.begin(), counts.end());
  for (std::uint64_t first = 0; first < longest; first += most) {
    const auto size_of = [&](std::uint64_t count) { return first < count ? std::min(most, count - first) : 0; };
    const std::uint64_t bytes = size_of(longest) * element;  // of a slot for each rank's part
    segment_.begin(bytes * counts.size());
    OPAL_MPI_STEP(segment_.fill([&](std::byte* to) {
      std::uint64_t start = 0;
      for (const std::uint64_t count : counts) {
        if (first < count) opal::copy_host_memory(to, in.base() + (start + first) * element, size_of(count) * element);
        to += bytes;
        start += count;
      }
    }));
    if (first >= own) continue;
    OPAL_MPI_STEP(segment_.await_all());
    const std::uint64_t offset = static_cast<std::uint64_t>(rank) * bytes;
    combine({segment_.slot(rank) + offset, size_of(own), in.type()}, offset, out + first * element, op);
  }
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::coll
