// SPDX-License-Identifier: Apache-2.0
#include "runtime/pmix/name_service.hpp"

#include <gtest/gtest.h>

namespace runtime::pmix {
namespace {

class NameServiceTest : public ::testing::Test {
 protected:
  Published item(const char* name, int number, pmix_rank_t owner = 0) {
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_INT;
    value.data.integer = number;
    Published result{name, {}, std::make_shared<OwnedValue>(value)};
    PMIX_LOAD_PROCID(&result.owner, "job", owner);
    return result;
  }

  LookupAnswer remember() {
    return [this](pmix_status_t status, const std::vector<Published>& found) {
      ++answers_;
      status_ = status;
      numbers_.clear();
      for (const Published& one : found) numbers_.push_back(one.value->get().data.integer);
      loop_->stop();
    };
  }

  std::unique_ptr<event::Loop> loop_ = event::Loop::create().value();
  NameService names_{*loop_};
  int answers_ = 0;
  pmix_status_t status_ = PMIX_ERROR;
  std::vector<int> numbers_;
};

TEST_F(NameServiceTest, FindsWhatWasPublishedAndSaysWhatIsMissing) {
  EXPECT_EQ(names_.publish({item("a", 1), item("b", 2)}), PMIX_SUCCESS);
  names_.lookup({"b", "a"}, false, {}, remember());
  EXPECT_EQ(status_, PMIX_SUCCESS);
  EXPECT_EQ(numbers_, (std::vector<int>{2, 1}));
  names_.lookup({"a", "c"}, false, {}, remember());
  EXPECT_EQ(status_, PMIX_ERR_PARTIAL_SUCCESS);
  names_.lookup({"c"}, false, {}, remember());
  EXPECT_EQ(status_, PMIX_ERR_NOT_FOUND);
}

TEST_F(NameServiceTest, RefusesANameThatIsTakenAndThenTakesNothing) {
  EXPECT_EQ(names_.publish({item("a", 1)}), PMIX_SUCCESS);
  EXPECT_EQ(names_.publish({item("b", 2), item("a", 3)}), PMIX_ERR_DUPLICATE_KEY);
  names_.lookup({"b"}, false, {}, remember());
  EXPECT_EQ(status_, PMIX_ERR_NOT_FOUND);
}

TEST_F(NameServiceTest, WaitingLookupIsAnsweredWhenTheLastNameArrives) {
  names_.lookup({"a", "b"}, true, {}, remember());
  EXPECT_EQ(names_.publish({item("a", 1)}), PMIX_SUCCESS);
  EXPECT_EQ(answers_, 0);
  EXPECT_EQ(names_.publish({item("b", 2)}), PMIX_SUCCESS);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(status_, PMIX_SUCCESS);
}

TEST_F(NameServiceTest, WaitingLookupEndsAtItsTimeout) {
  names_.lookup({"a"}, true, std::chrono::seconds{1}, remember());
  loop_->run();
  EXPECT_EQ(status_, PMIX_ERR_TIMEOUT);
  EXPECT_EQ(names_.publish({item("a", 1)}), PMIX_SUCCESS);
  EXPECT_EQ(answers_, 1) << "answered twice";
}

TEST_F(NameServiceTest, OnlyTheOwnerWithdrawsANameAndAFirstReadTakesIt) {
  Published once = item("once", 1);
  once.persistence = PMIX_PERSIST_FIRST_READ;
  EXPECT_EQ(names_.publish({once, item("kept", 2, 1)}), PMIX_SUCCESS);
  names_.lookup({"once"}, false, {}, remember());
  EXPECT_EQ(status_, PMIX_SUCCESS);
  names_.lookup({"once"}, false, {}, remember());
  EXPECT_EQ(status_, PMIX_ERR_NOT_FOUND);
  names_.unpublish(once.owner, {});
  names_.lookup({"kept"}, false, {}, remember());
  EXPECT_EQ(status_, PMIX_SUCCESS);
  names_.unpublish(item("kept", 2, 1).owner, {"kept"});
  names_.lookup({"kept"}, false, {}, remember());
  EXPECT_EQ(status_, PMIX_ERR_NOT_FOUND);
}

TEST_F(NameServiceTest, ANameOfAProcessEndsWithItAndOthersStay) {
  Published of_process = item("of the process", 1);
  of_process.persistence = PMIX_PERSIST_PROC;
  EXPECT_EQ(names_.publish({of_process, item("of the job", 2)}), PMIX_SUCCESS);
  names_.end(item("", 0, 1).owner);
  names_.lookup({"of the process", "of the job"}, false, {}, remember());
  EXPECT_EQ(numbers_, (std::vector<int>{1, 2}));
  names_.end(of_process.owner);
  names_.lookup({"of the process", "of the job"}, false, {}, remember());
  EXPECT_EQ(numbers_, (std::vector<int>{2}));
}

}  // namespace
}  // namespace runtime::pmix
