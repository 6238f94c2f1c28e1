// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/signature.hpp — the type signature of one instance of a datatype: its elements in the order of the
// message, as runs with repetition counts.  For a number of bytes it computes the number of elements in them.
// Owned by its datatype.  Threads: immutable once built.  Invariants: no empty run; nested runs are shared.
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "mpi_shim/datatype/element.hpp"

namespace mpi_shim::datatype {

/// `count` repetitions of one element, or of a group: the runs [first, last) of the signature.
struct SignatureRun {
  std::int64_t count = 0;     ///< repetitions
  std::int64_t bytes = 0;     ///< of one repetition
  std::int64_t elements = 0;  ///< of one repetition, a pair counting as two
  std::int64_t external = 0;  ///< bytes of one repetition in the representation "external32"
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  Element element = Element::byte;  ///< unused in a group

  [[nodiscard]] bool is_group() const noexcept { return last != first; }
};

/// The result of elements_in().
struct ElementCount {
  std::int64_t elements = 0;
  std::int64_t rest = 0;  ///< bytes behind the last whole element
};

class Signature {
 public:
  /// `external`: bytes of the element in "external32".  They are not a property of the Element: MPI_LONG and
  /// MPI_INT64_T are both i64, but have 4 and 8 bytes in external32.
  static Signature of_element(Element element, std::int64_t external);

  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::int64_t elements() const noexcept { return elements_; }  ///< a pair counts as two

  [[nodiscard]] std::int64_t external_bytes() const noexcept { return external_; }  ///< of one instance

  /// The one element that all runs consist of; empty if there are several different elements or none.
  [[nodiscard]] std::optional<Element> uniform() const noexcept { return uniform_; }

  /// The number of whole elements in the first `bytes` bytes of consecutive instances; a pair counts as two.
  [[nodiscard]] ElementCount elements_in(std::int64_t bytes) const noexcept;

  /// Calls visit(run) for each run of one instance in order, with groups expanded.  Neighbouring runs may have the same
  /// element.
  template <class Visit>
  void for_each_run(Visit&& visit) const {
    visit_range(root_first_, root_last_, visit);
  }

 private:
  friend class SignatureBuilder;

  template <class Visit>
  void visit_range(std::uint32_t first, std::uint32_t last, Visit& visit) const {
    for (; first < last; ++first) {
      const SignatureRun& run = runs_[first];
      if (!run.is_group()) {
        visit(run);
      } else {
        for (std::int64_t i = 0; i < run.count; ++i) visit_range(run.first, run.last, visit);
      }
    }
  }

  std::vector<SignatureRun> runs_;
  std::uint32_t root_first_ = 0;
  std::uint32_t root_last_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t elements_ = 0;
  std::int64_t external_ = 0;
  std::optional<Element> uniform_;
};

/// Builds a signature in the order of the message.  Requires: Bounds::add() has succeeded for the same steps, so that
/// no sum overflows.  Threads: one.
class SignatureBuilder {
 public:
  /// Appends `count` repetitions of `part`, which outlives the builder.
  void add(const Signature& part, std::int64_t count);
  /// Repeats everything added so far `count` times.
  void repeat(std::int64_t count);
  [[nodiscard]] Signature finish() &&;

 private:
  std::uint32_t import(const Signature& part);
  void append(const SignatureRun& run);
  SignatureRun nest();

  Signature out_;
  std::vector<SignatureRun> sequence_;
  std::unordered_map<const Signature*, std::uint32_t> imported_;
};

}  // namespace mpi_shim::datatype
