// SPDX-License-Identifier: Apache-2.0
// tests/rcache/model.hpp — what a cache should hold, as a plain list that is searched from end to end.  The
// policies differ in what counts as idle.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "opal/rcache/cache.hpp"

namespace opal::rcache::test {

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  [[nodiscard]] bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  [[nodiscard]] bool contains(const Range& other) const { return begin <= other.begin && other.end <= end; }
};

struct Entry {
  std::uint64_t key = 0;
  Range range;
  Access access = 0;
  std::vector<Range> leases{};
  bool serves = true;
  bool valid = true;
  std::uint64_t last_use = 0;

  [[nodiscard]] bool serves_request(const Range& r, Access a) const {
    return serves && range.contains(r) && (a & ~access) == 0;
  }
};

class Model {
 public:
  /// Room for `capacity` registrations.
  Model(std::size_t capacity, bool leave_pinned) : capacity_(capacity), leave_pinned_(leave_pinned) {}
  virtual ~Model() = default;

  std::list<Entry> entries;  ///< all that is registered
  std::uint64_t evictions = 0;

  [[nodiscard]] bool hits(const Range& r, Access a) const {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& e) { return e.serves_request(r, a); });
  }
  void lend(std::uint64_t key, const Range& r) { find(key).leases.push_back(r); }

  /// Makes room as a miss does.  False when there is none.
  bool make_room() {
    undo([](const Entry& e) { return !e.serves && e.leases.empty(); });
    while (entries.size() >= capacity_) {
      const auto oldest = std::min_element(entries.begin(), entries.end(), [this](const Entry& a, const Entry& b) {
        return idle(a) != idle(b) ? idle(a) : a.last_use < b.last_use;
      });
      if (oldest == entries.end() || !idle(*oldest)) return false;
      entries.erase(oldest);
      ++evictions;
    }
    return true;
  }
  void registered(std::uint64_t key, const Range& range, Access access) {
    entries.push_back({key, range, access, {range}});
  }

  void give(std::uint64_t key, const Range& lease) {
    ++now_;
    Entry& entry = find(key);
    entry.leases.erase(std::find_if(entry.leases.begin(), entry.leases.end(),
                                    [&](const Range& r) { return r.begin == lease.begin && r.end == lease.end; }));
    entry.last_use = now_;
    note_use(lease, now_);
    undo([&](const Entry& e) { return e.key == key && !e.serves && e.leases.empty(); });
    if (!leave_pinned_) undo([this](const Entry& e) { return idle(e); });
  }

  std::size_t invalidate(const Range& range) {
    std::size_t count = 0;
    for (Entry& e : entries) {
      if (!e.valid || !e.range.overlaps(range)) continue;
      e.valid = e.serves = false;
      ++count;
    }
    return count;
  }
  void flush() {
    undo([](const Entry& e) { return !e.serves && e.leases.empty(); });
    undo([this](const Entry& e) { return idle(e); });
  }
  [[nodiscard]] std::size_t idle_count() const {
    return static_cast<std::size_t>(
        std::count_if(entries.begin(), entries.end(), [this](const Entry& e) { return idle(e); }));
  }

 protected:
  [[nodiscard]] virtual bool idle(const Entry& entry) const { return entry.serves && entry.leases.empty(); }
  virtual void note_use(const Range& /*lease*/, std::uint64_t& /*now*/) {}

  Entry& find(std::uint64_t key) {
    return *std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  }
  template <class Gone>
  void undo(Gone gone) {
    std::vector<std::uint64_t> keys;  // first look at all, then erase: leases of one may keep another
    for (const Entry& e : entries) {
      if (gone(e)) keys.push_back(e.key);
    }
    entries.remove_if([&](const Entry& e) { return std::find(keys.begin(), keys.end(), e.key) != keys.end(); });
  }

 private:
  const std::size_t capacity_;
  const bool leave_pinned_;
  std::uint64_t now_ = 0;
};

/// A registration is in use while a lease of any registration has a page of it.
class PageRefcountModel final : public Model {
 public:
  using Model::Model;

 protected:
  [[nodiscard]] bool idle(const Entry& entry) const override {
    return entry.serves && std::none_of(entries.begin(), entries.end(), [&](const Entry& other) {
             return std::any_of(other.leases.begin(), other.leases.end(),
                                [&](const Range& lease) { return lease.overlaps(entry.range); });
           });
  }
  void note_use(const Range& lease, std::uint64_t& now) override {
    std::vector<Entry*> touched;
    for (Entry& e : entries) {
      if (e.serves && e.range.overlaps(lease)) touched.push_back(&e);
    }
    std::sort(touched.begin(), touched.end(), [](const Entry* a, const Entry* b) {
      return a->range.begin != b->range.begin ? a->range.begin < b->range.begin : a->key < b->key;
    });
    for (Entry* e : touched) e->last_use = ++now;
  }
};

inline std::unique_ptr<Model> make_model(Overlap overlap, std::size_t capacity, bool leave_pinned) {
  if (overlap == Overlap::page_refcount) return std::make_unique<PageRefcountModel>(capacity, leave_pinned);
  return std::make_unique<Model>(capacity, leave_pinned);
}

}  // namespace opal::rcache::test
