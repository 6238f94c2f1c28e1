// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/name_service.hpp — what clients published, and the lookups that still wait for a name.
// Owns copies of the values.  Threads: the loop's thread.
#pragma once
#include <pmix.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/event/loop.hpp"

namespace runtime::pmix {

/// A copy of a pmix_value_t.
class OwnedValue {
 public:
  explicit OwnedValue(const pmix_value_t& value) {
    PMIX_VALUE_CONSTRUCT(&value_);
    PMIx_Value_xfer(&value_, &value);
  }
  OwnedValue(const OwnedValue&) = delete;
  OwnedValue& operator=(const OwnedValue&) = delete;
  ~OwnedValue() { PMIX_VALUE_DESTRUCT(&value_); }
  [[nodiscard]] const pmix_value_t& get() const noexcept { return value_; }

 private:
  pmix_value_t value_;
};

/// One published name.
struct Published {
  std::string name;
  pmix_proc_t owner;
  std::shared_ptr<const OwnedValue> value;
  pmix_persistence_t persistence =
      PMIX_PERSIST_SESSION;  ///< FIRST_READ and PROC end it early; no name outlives the job
};

/// Told the names found, with PMIX_SUCCESS, PMIX_ERR_PARTIAL_SUCCESS, PMIX_ERR_NOT_FOUND or PMIX_ERR_TIMEOUT.
using LookupAnswer = std::function<void(pmix_status_t, const std::vector<Published>&)>;

class NameService {
 public:
  explicit NameService(event::Loop& loop) noexcept : loop_(loop) {}

  /// Takes all of `items`, or none when one of their names is taken: PMIX_ERR_DUPLICATE_KEY.
  pmix_status_t publish(const std::vector<Published>& items);

  /// Answers at once, or with `wait` when all names are there; `timeout` zero waits for ever.
  void lookup(std::vector<std::string> names, bool wait, std::chrono::seconds timeout, LookupAnswer answer);

  /// Removes those of `names` that `owner` published; all of its names when there are none given.
  void unpublish(const pmix_proc_t& owner, const std::vector<std::string>& names);

  /// That process has ended, and with it its names of PMIX_PERSIST_PROC.
  void end(const pmix_proc_t& owner);

 private:
  struct Waiting {
    std::vector<std::string> names;
    LookupAnswer answer;
    event::Timer timer;
  };
  [[nodiscard]] std::vector<Published> find(const std::vector<std::string>& names) const;
  void reply(const LookupAnswer& answer, pmix_status_t status, const std::vector<Published>& found);

  event::Loop& loop_;
  std::map<std::string, Published> published_;
  std::list<Waiting> waiting_;
};

}  // namespace runtime::pmix
