// SPDX-License-Identifier: Apache-2.0
// Questions of clients on which libpmix's server would crash.
#include <gtest/gtest.h>

#include "runtime/pmix/upcalls.hpp"

namespace runtime::pmix {
namespace {

/// A question with one key, unless none is wanted, and these qualifiers.
class Question {
 public:
  explicit Question(InfoList qualifiers, bool has_key = true) : qualifiers_(std::move(qualifiers)) {
    PMIX_QUERY_CONSTRUCT(&query_);
    if (has_key) query_.keys = keys_;
    query_.qualifiers = qualifiers_.data();
    query_.nqual = qualifiers_.size();
  }
  pmix_status_t make_safe() { return pmix::make_safe({&query_, 1}, "job"); }
  [[nodiscard]] const pmix_info_t& qualifier(std::size_t index) const { return query_.qualifiers[index]; }

 private:
  char key_[16] = "pmix.some.key";
  char* keys_[2] = {key_, nullptr};
  InfoList qualifiers_;
  pmix_query_t query_;
};

TEST(SafeQueries, ARankWithoutAJobIsOneOfThisJob) {
  InfoList qualifiers;
  qualifiers.add("other", true);
  qualifiers.add_rank(PMIX_RANK, 3);
  Question question{std::move(qualifiers)};
  ASSERT_EQ(question.make_safe(), PMIX_SUCCESS);
  const pmix_info_t& named = question.qualifier(1);
  ASSERT_TRUE(PMIX_CHECK_KEY(&named, PMIX_PROCID));
  ASSERT_EQ(named.value.type, PMIX_PROC);
  EXPECT_EQ(named.value.data.proc->rank, 3U);
  EXPECT_STREQ(named.value.data.proc->nspace, "job");
}

TEST(SafeQueries, WhatNamesItsJobStaysAsItIs) {
  InfoList qualifiers;
  qualifiers.add_rank(PMIX_RANK, 3);
  qualifiers.add(PMIX_NSPACE, std::string("another job"));
  Question question{std::move(qualifiers)};
  ASSERT_EQ(question.make_safe(), PMIX_SUCCESS);
  EXPECT_TRUE(PMIX_CHECK_KEY(&question.qualifier(0), PMIX_RANK));
}

TEST(SafeQueries, NonsenseIsRefused) {
  EXPECT_EQ(Question({}, false).make_safe(), PMIX_ERR_BAD_PARAM) << "no key";
  for (const char* const key : {PMIX_PROCID, PMIX_NSPACE, PMIX_RANK}) {
    InfoList qualifiers;
    qualifiers.add(key, true);
    EXPECT_EQ(Question(std::move(qualifiers)).make_safe(), PMIX_ERR_BAD_PARAM) << key << " is no truth value";
  }
  EXPECT_EQ(Question({}).make_safe(), PMIX_SUCCESS);
}

}  // namespace
}  // namespace runtime::pmix
