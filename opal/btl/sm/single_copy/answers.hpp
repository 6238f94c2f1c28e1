// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/answers.hpp — what a mechanism has requested from the peer and the peer's answers: shared
// pools, KNEM cookies.  A request or answer is lost if a socket is full, so a request without an answer is repeated.
// Keeps at most `most` answers; the least recently used is dropped.  Threads: as the module.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace opal::btl::sm {

/// Key(answer) is the number that names the requested object.
template <class Answer, auto Key>
class Answers {
 public:
  explicit Answers(std::size_t most) noexcept : most_(most) {}

  /// The answer with the key of `wanted`, valid until the next find() or forget(); `wanted` itself until it has come.
  /// Calls ask() at the first use, and without an answer again at the 64th, 128th, 256th ... use.
  template <class Ask>
  const Answer& find(Answer wanted, Ask ask) noexcept {
    auto entry = place(Key(wanted));
    if (entry == entries_.end()) {
      if (entries_.size() == most_) entries_.erase(std::ranges::min_element(entries_, {}, &Entry::used));
      entry = entries_.insert(entries_.end(), Entry{std::move(wanted)});
      ask();
    } else if (!entry->answered && ++entry->waited >= 64 && std::has_single_bit(entry->waited)) {
      ask();
    }
    entry->used = ++uses_;
    return entry->answer;
  }

  /// Takes the peer's answer; drops one whose request was dropped.
  void take(Answer answer) noexcept {
    const auto entry = place(Key(answer));
    if (entry == entries_.end() || entry->answered) return;
    entry->answer = std::move(answer);
    entry->answered = true;
  }

  /// The next find() of this key requests it again.
  void forget(std::uint64_t key) noexcept {
    if (const auto entry = place(key); entry != entries_.end()) entries_.erase(entry);
  }

  template <class Which>
  [[nodiscard]] std::size_t count_if(Which which) const noexcept {
    return static_cast<std::size_t>(std::ranges::count_if(entries_, which, &Entry::answer));
  }

 private:
  struct Entry {
    Answer answer;
    bool answered = false;
    std::uint64_t waited = 0;  // uses without an answer, but the first
    std::uint64_t used = 0;    // value of uses_ at the last use
  };
  [[nodiscard]] auto place(std::uint64_t key) noexcept {
    return std::ranges::find_if(entries_, [key](const Entry& entry) { return Key(entry.answer) == key; });
  }

  const std::size_t most_;
  std::vector<Entry> entries_;  // few: searched once per use
  std::uint64_t uses_ = 0;
};

}  // namespace opal::btl::sm
