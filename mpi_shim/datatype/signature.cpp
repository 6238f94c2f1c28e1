// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/signature.hpp"

#include <utility>

namespace mpi_shim::datatype {
namespace {

constexpr std::uint32_t kInlineRuns = 16;  // add() makes a group of a part with more root runs, instead of copying them

std::int64_t elements_of(Element element) { return info(element).element_class == ElementClass::pair ? 2 : 1; }

}  // namespace

Signature Signature::of_element(Element element, std::int64_t external) {
  SignatureRun run;
  run.count = 1;
  run.bytes = info(element).size;
  run.elements = elements_of(element);
  run.external = external;
  run.element = element;
  Signature signature;
  signature.runs_.push_back(run);
  signature.root_last_ = 1;
  signature.bytes_ = run.bytes;
  signature.elements_ = run.elements;
  signature.external_ = external;
  signature.uniform_ = element;
  return signature;
}

ElementCount Signature::elements_in(std::int64_t bytes) const noexcept {
  if (bytes_ == 0) return {0, bytes};
  ElementCount found{bytes / bytes_ * elements_, bytes % bytes_};
  std::uint32_t index = root_first_;
  while (found.rest > 0) {  // invariant: the runs from `index` on have more than `rest` bytes
    const SignatureRun& run = runs_[index];
    if (found.rest >= run.count * run.bytes) {
      found.elements += run.count * run.elements;
      found.rest -= run.count * run.bytes;
      ++index;
      continue;
    }
    found.elements += found.rest / run.bytes * run.elements;
    found.rest %= run.bytes;
    if (run.is_group()) {
      index = run.first;
      continue;
    }
    const ElementInfo& element = info(run.element);
    const std::int64_t value = info(element.first).size;
    if (element.element_class == ElementClass::pair && found.rest >= value) {  // the value of a pair, without its index
      ++found.elements;
      found.rest -= value;
    }
    break;
  }
  return found;
}

// out_.runs_ holds the runs that groups refer to.  sequence_ holds the root runs; finish() copies them to out_.runs_.

/// Copies all runs of `part` to out_.runs_, at the first call for this part.  Returns the index of its first run there.
std::uint32_t SignatureBuilder::import(const Signature& part) {
  if (const auto known = imported_.find(&part); known != imported_.end()) return known->second;
  const auto origin = static_cast<std::uint32_t>(out_.runs_.size());
  for (SignatureRun run : part.runs_) {
    if (run.is_group()) {
      run.first += origin;
      run.last += origin;
    }
    out_.runs_.push_back(run);
  }
  imported_.emplace(&part, origin);
  return origin;
}

void SignatureBuilder::append(const SignatureRun& run) {
  if (!sequence_.empty()) {
    SignatureRun& back = sequence_.back();
    const bool joins = run.is_group()
                           ? back.first == run.first && back.last == run.last
                           : !back.is_group() && back.element == run.element && back.external == run.external;
    if (joins) {
      back.count += run.count;
      return;
    }
  }
  sequence_.push_back(run);
}

void SignatureBuilder::add(const Signature& part, std::int64_t count) {
  if (count == 0 || part.bytes_ == 0) return;
  const std::uint32_t roots = part.root_last_ - part.root_first_;
  const bool as_group = roots > kInlineRuns || (roots > 1 && count > 1);
  bool refers = false;
  for (std::uint32_t i = part.root_first_; i < part.root_last_; ++i) refers |= part.runs_[i].is_group();
  const std::uint32_t origin = as_group || refers ? import(part) : 0;
  if (as_group) {
    SignatureRun group;
    group.count = count;
    group.bytes = part.bytes_;
    group.elements = part.elements_;
    group.external = part.external_;
    group.first = part.root_first_ + origin;
    group.last = part.root_last_ + origin;
    append(group);
    return;
  }
  for (std::uint32_t i = part.root_first_; i < part.root_last_; ++i) {
    SignatureRun run = part.runs_[i];
    if (run.is_group()) {
      run.first += origin;
      run.last += origin;
    }
    run.count *= count;  // `count` is 1 unless the part has one root run: otherwise as_group
    append(run);
  }
}

/// Copies sequence_ to out_.runs_.  Returns a group of these runs with count 1.
SignatureRun SignatureBuilder::nest() {
  SignatureRun group;
  group.count = 1;
  group.first = static_cast<std::uint32_t>(out_.runs_.size());
  for (const SignatureRun& run : sequence_) {
    group.bytes += run.count * run.bytes;
    group.elements += run.count * run.elements;
    group.external += run.count * run.external;
    out_.runs_.push_back(run);
  }
  group.last = static_cast<std::uint32_t>(out_.runs_.size());
  return group;
}

void SignatureBuilder::repeat(std::int64_t count) {
  if (count == 0) sequence_.clear();
  if (count <= 1 || sequence_.empty()) return;
  if (sequence_.size() == 1) {
    sequence_.front().count *= count;
    return;
  }
  SignatureRun group = nest();
  group.count = count;
  sequence_.assign(1, group);
}

Signature SignatureBuilder::finish() && {
  const SignatureRun whole = nest();
  out_.root_first_ = whole.first;
  out_.root_last_ = whole.last;
  out_.bytes_ = whole.bytes;
  out_.elements_ = whole.elements;
  out_.external_ = whole.external;
  if (whole.bytes == 0) return std::move(out_);
  // Examines all stored runs.  import() may have stored root runs that no group refers to, but their elements occur in
  // the signature too.  A part added before repeat(0) would be an exception, but every caller adds only the same part
  // after that.
  for (const SignatureRun& run : out_.runs_) {
    if (run.is_group()) continue;
    if (out_.uniform_.has_value() && *out_.uniform_ != run.element) {
      out_.uniform_.reset();
      break;
    }
    out_.uniform_ = run.element;
  }
  return std::move(out_);
}

}  // namespace mpi_shim::datatype
