// SPDX-License-Identifier: Apache-2.0
// Gatherv, scatterv, alltoallv and alltoallw of a HostTeam: only the sender and the receiver of a block know its size.
// All use one exchange, whatever the sizes.  Each rank writes the lengths of its blocks into its cell, followed by the
// blocks, or, if they do not fit the cell, writes the blocks into its slot.  Blocks that do not fit the slot have the
// length kByMessage and are sent as messages, as are all blocks for other hosts.
#include <algorithm>
#include <array>
#include <cstring>

#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/host/team_steps.hpp"

namespace mpi_shim::coll {
namespace {

using Length = std::uint32_t;
using Lengths = std::array<Length, TeamSegment::kMostRanks>;
constexpr Length kByMessage = UINT32_MAX;
static_assert(sizeof(Lengths) < TeamSegment::kCellBytes);

/// The offset of the blocks in a cell with `number` lengths.
std::uint64_t behind_lengths(std::size_t number) { return align_up(number * sizeof(Length), 16); }
bool fits_cell(std::size_t number, std::uint64_t bytes) {
  return bytes <= TeamSegment::kCellBytes - behind_lengths(number);
}

/// The lengths and blocks that one rank writes or reads in an exchange.
class Contribution {
 public:
  /// `longest`: the most bytes of a block in a cell or slot.  `number`: blocks of each rank.
  Contribution(TeamSegment& segment, std::uint64_t longest, std::size_t number) noexcept
      : segment_(segment), longest_(longest), number_(number) {}

  /// Writes this rank's blocks and publishes them.  Null blocks count as empty.  Returns an error class.
  int put(std::span<const Buffer* const> blocks) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < number_; ++i) {
      const std::uint64_t bytes = blocks[i] == nullptr ? 0 : blocks[i]->bytes();
      const bool fits = bytes <= longest_ && bytes <= segment_.slot_bytes() - total;
      lengths_[i] = fits ? static_cast<Length>(bytes) : kByMessage;
      if (fits) total += bytes;
    }
    OPAL_MPI_STEP(segment_.claim());
    const bool is_short = fits_cell(number_, total);
    if (!is_short) OPAL_MPI_STEP(segment_.claim_beside());
    std::byte* const cell = segment_.slot(segment_.rank());
    std::memcpy(cell, lengths_.data(), number_ * sizeof(Length));
    std::byte* to = is_short ? cell + behind_lengths(number_) : segment_.beside(segment_.rank());
    for (std::size_t i = 0; i < number_; ++i) {
      if (lengths_[i] == 0 || lengths_[i] == kByMessage) continue;
      coll::put(*blocks[i], 0, {to, lengths_[i]});
      to += lengths_[i];
    }
    segment_.arrive();
    return MPI_SUCCESS;
  }

  /// Waits for `from` and copies its `index`-th block to `to`, unless by_message(index) is true afterwards.  Returns an
  /// error class.
  int take(int from, std::size_t index, const Buffer& to) {
    OPAL_MPI_STEP(segment_.await(from));
    const std::byte* const cell = segment_.slot(from);
    std::memcpy(lengths_.data(), cell, number_ * sizeof(Length));
    if (by_message(index)) return MPI_SUCCESS;
    std::uint64_t total = 0;
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < number_; ++i) {
      if (i == index) before = total;
      if (!by_message(i)) total += lengths_[i];
    }
    if (total > segment_.slot_bytes()) return MPI_ERR_INTERN;  // invalid: put() never writes this
    const std::byte* const blocks = fits_cell(number_, total) ? cell + behind_lengths(number_) : segment_.beside(from);
    coll::get({blocks + before, std::min<std::uint64_t>(lengths_[index], to.bytes())}, to, 0);
    return lengths_[index] <= to.bytes() ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
  }

  /// After put() or take(): whether that rank's `index`-th block is sent as a message.
  [[nodiscard]] bool by_message(std::size_t index) const noexcept { return lengths_[index] == kByMessage; }

 private:
  TeamSegment& segment_;
  const std::uint64_t longest_;
  const std::size_t number_;
  Lengths lengths_;
};

}  // namespace

int HostTeam::rooted_uneven(bool gathers, const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  const bool is_root = comm_.rank() == root;
  if (is_root && own) gathers ? p2p::copy(*own, blocks[at(root)]) : p2p::copy(blocks[at(root)], *own);
  std::vector<const Buffer*> one(at(comm_.size()));  // for or from the root
  if (!is_root) one[at(root)] = &*own;
  std::vector<const Buffer*> all = is_root ? addresses_of(blocks) : std::vector<const Buffer*>(at(comm_.size()));
  return gathers ? exchange_pairs(std::move(one), std::move(all), Targets::one)
                 : exchange_pairs(std::move(all), std::move(one), Targets::many);
}

HostTeam::Outcome HostTeam::alltoallv(const Blocks& out, const Blocks& in) {
  if (&out == &in) return std::nullopt;  // MPI_IN_PLACE, in all ranks
  p2p::copy(out[at(comm_.rank())], in[at(comm_.rank())]);
  return exchange_pairs(addresses_of(out), addresses_of(in), Targets::many);
}

int HostTeam::exchange_pairs(std::vector<const Buffer*> out, std::vector<const Buffer*> in, Targets targets) {
  const int me = segment_.rank();
  const int tag = next_tag();
  const std::vector<int>& here = hosts_.here;
  const bool to_one = targets == Targets::one;
  const auto index = [&](int place) { return to_one ? 0 : at(place); };  // of the block for that rank
  Contribution contribution{segment_, longest_.block, to_one ? 1 : here.size()};
  out[at(comm_.rank())] = in[at(comm_.rank())] = nullptr;
  segment_.begin(TeamSegment::kCellBytes);

  // A block that goes through the segment is removed from `out` or `in`; the others are exchanged as messages.
  std::array<const Buffer*, TeamSegment::kMostRanks> mine;
  std::fill_n(mine.begin(), here.size(), nullptr);
  bool has_any = false;
  for (int place = 0; place < segment_.size(); ++place) {
    if (const Buffer* const block = out[at(here[at(place)])]) {
      mine[index(place)] = block;
      has_any = true;
    }
  }
  if (has_any) OPAL_MPI_STEP(contribution.put(mine));
  for (int place = 0; place < segment_.size(); ++place) {
    if (has_any && !contribution.by_message(index(place))) out[at(here[at(place)])] = nullptr;
  }

  int error = MPI_SUCCESS;
  for (int step = 1; step < segment_.size(); ++step) {
    const int from = (me + step) % segment_.size();
    const Buffer*& block = in[at(here[at(from)])];
    if (block == nullptr) continue;
    const int taken = contribution.take(from, index(me), *block);
    if (taken == MPI_ERR_PROC_ABORTED) return taken;
    error = first_error(error, taken);
    if (taken != MPI_SUCCESS || !contribution.by_message(index(me))) block = nullptr;
  }
  const auto is_left = [](const Buffer* block) { return block != nullptr; };
  if (std::ranges::none_of(out, is_left) && std::ranges::none_of(in, is_left)) return error;
  const int exchanged =
      run(comm_, Team{comm_.rank(), comm_.size()}, tag, [&](Schedule& schedule) { build_exchange(schedule, out, in); });
  return first_error(error, exchanged);
}

}  // namespace mpi_shim::coll
