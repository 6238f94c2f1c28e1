// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/info_list.hpp — owns an array of pmix_info_t and fills it; values are copied in.
// Threads: one owner at a time.
#pragma once
#include <pmix.h>

#include <cstdint>
#include <string>
#include <vector>

namespace runtime::pmix {

class InfoList {
 public:
  InfoList() noexcept = default;
  InfoList(InfoList&& other) noexcept : infos_(std::move(other.infos_)) { other.infos_.clear(); }
  InfoList& operator=(InfoList&&) = delete;
  ~InfoList() {
    for (pmix_info_t& info : infos_) PMIX_INFO_DESTRUCT(&info);
  }

  void add(const char* key, const std::string& value) { load(key, value.c_str(), PMIX_STRING); }
  void add(const char* key, bool value) { load(key, &value, PMIX_BOOL); }
  void add(const char* key, int value) { load(key, &value, PMIX_INT); }
  void add(const char* key, std::uint32_t value) { load(key, &value, PMIX_UINT32); }
  void add(const char* key, std::uint16_t value) { load(key, &value, PMIX_UINT16); }
  void add(const char* key, std::size_t value) { load(key, &value, PMIX_SIZE); }
  void add_rank(const char* key, pmix_rank_t value) { load(key, &value, PMIX_PROC_RANK); }
  void add_proc(const char* key, const pmix_proc_t& value) { load(key, &value, PMIX_PROC); }
  void add_value(const char* key, const pmix_value_t& value) {
    pmix_info_t& info = infos_.emplace_back();
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_LOAD_KEY(info.key, key);
    PMIx_Value_xfer(&info.value, &value);
  }
  void add_regex(const char* key, const char* value) { load(key, value, PMIX_REGEX); }

  /// Adds an array with copies of the infos of `list`.
  void add_list(const char* key, InfoList& list) {
    const pmix_data_array_t array{PMIX_INFO, list.infos_.size(), list.infos_.data()};
    load(key, &array, PMIX_DATA_ARRAY);
  }

  /// Adds a copy of `data`, which has the libpmix type `type`.
  void load(const char* key, const void* data, pmix_data_type_t type) {
    pmix_info_t& info = infos_.emplace_back();
    PMIX_INFO_CONSTRUCT(&info);
    PMIx_Info_load(&info, key, data, type);
  }

  [[nodiscard]] pmix_info_t* data() noexcept { return infos_.empty() ? nullptr : infos_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return infos_.size(); }

 private:
  std::vector<pmix_info_t> infos_;
};

}  // namespace runtime::pmix
