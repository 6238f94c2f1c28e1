// SPDX-License-Identifier: Apache-2.0
#include "runtime/pmix/name_service.hpp"

#include <gtest/gtest.h>
#include <pmix_common.h>

namespace runtime::pmix {
namespace {

using Kind = NameRequest::Kind;

PackedItem item(const char* name, int number, std::uint32_t owner = 0) {
  return {name, owner, std::to_string(number), PMIX_PERSIST_SESSION};
}

class NameServiceTest : public ::testing::Test {
 protected:
  int publish(std::vector<PackedItem> items) {
    int answer = PMIX_ERROR;
    names_.serve({.kind = Kind::publish, .items = std::move(items)}, [&](int status, const auto&) { answer = status; });
    return answer;
  }
  void lookup(std::vector<std::string> names, bool wait = false, std::uint64_t timeout_s = 0, std::uint32_t owner = 0) {
    names_.serve(
        {.kind = Kind::lookup, .owner = owner, .names = std::move(names), .wait = wait, .timeout_s = timeout_s},
        [this](int status, const std::vector<PackedItem>& found) {
          ++answers_;
          status_ = status;
          numbers_.clear();
          for (const PackedItem& one : found) numbers_.push_back(std::stoi(one.value));
          loop_->stop();
        });
  }
  void unpublish(std::uint32_t owner, std::vector<std::string> names) {
    names_.serve({.kind = Kind::unpublish, .owner = owner, .names = std::move(names)}, [](int, const auto&) {});
  }

  std::unique_ptr<event::Loop> loop_ = event::Loop::create().value();
  NameService names_{*loop_};
  int answers_ = 0;
  int status_ = PMIX_ERROR;
  std::vector<int> numbers_;
};

TEST_F(NameServiceTest, FindsWhatWasPublishedAndSaysWhatIsMissing) {
  EXPECT_EQ(publish({item("a", 1), item("b", 2)}), PMIX_SUCCESS);
  lookup({"b", "a"});
  EXPECT_EQ(status_, PMIX_SUCCESS);
  EXPECT_EQ(numbers_, (std::vector<int>{2, 1}));
  lookup({"a", "c"});
  EXPECT_EQ(status_, PMIX_ERR_PARTIAL_SUCCESS);
  lookup({"c"});
  EXPECT_EQ(status_, PMIX_ERR_NOT_FOUND);
}

TEST_F(NameServiceTest, RefusesANameThatIsTakenAndThenTakesNothing) {
  EXPECT_EQ(publish({item("a", 1)}), PMIX_SUCCESS);
  EXPECT_EQ(publish({item("b", 2), item("a", 3)}), PMIX_ERR_DUPLICATE_KEY);
  lookup({"b"});
  EXPECT_EQ(status_, PMIX_ERR_NOT_FOUND);
}

TEST_F(NameServiceTest, WaitingLookupIsAnsweredWhenTheLastNameArrives) {
  lookup({"a", "b"}, true);
  EXPECT_EQ(publish({item("a", 1)}), PMIX_SUCCESS);
  EXPECT_EQ(answers_, 0);
  EXPECT_EQ(publish({item("b", 2)}), PMIX_SUCCESS);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(status_, PMIX_SUCCESS);
}

TEST_F(NameServiceTest, WaitingLookupEndsAtItsTimeout) {
  lookup({"a"}, true, 1);
  loop_->run();
  EXPECT_EQ(status_, PMIX_ERR_TIMEOUT);
  EXPECT_EQ(publish({item("a", 1)}), PMIX_SUCCESS);
  EXPECT_EQ(answers_, 1) << "answered twice";
}

TEST_F(NameServiceTest, WaitingLookupOfARankThatEndsIsAnsweredWithAnErrorAndTakesNoNameLater) {
  lookup({"a"}, true, 0, 1);
  names_.end(0);
  EXPECT_EQ(answers_, 0);
  names_.end(1);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(status_, PMIX_ERR_PROC_TERM_WO_SYNC);
  PackedItem once = item("a", 1);
  once.persistence = PMIX_PERSIST_FIRST_READ;
  EXPECT_EQ(publish({once}), PMIX_SUCCESS);
  EXPECT_EQ(answers_, 1);
  lookup({"a"});
  EXPECT_EQ(status_, PMIX_SUCCESS);
}

TEST_F(NameServiceTest, OnlyTheOwnerWithdrawsANameAndAFirstReadTakesIt) {
  PackedItem once = item("once", 1);
  once.persistence = PMIX_PERSIST_FIRST_READ;
  EXPECT_EQ(publish({once, item("kept", 2, 1)}), PMIX_SUCCESS);
  lookup({"once"});
  EXPECT_EQ(status_, PMIX_SUCCESS);
  lookup({"once"});
  EXPECT_EQ(status_, PMIX_ERR_NOT_FOUND);
  unpublish(0, {});
  lookup({"kept"});
  EXPECT_EQ(status_, PMIX_SUCCESS);
  unpublish(1, {"kept"});
  lookup({"kept"});
  EXPECT_EQ(status_, PMIX_ERR_NOT_FOUND);
}

TEST_F(NameServiceTest, ANameOfAProcessEndsWithItAndOthersStay) {
  PackedItem of_process = item("of the process", 1);
  of_process.persistence = PMIX_PERSIST_PROC;
  EXPECT_EQ(publish({of_process, item("of the job", 2)}), PMIX_SUCCESS);
  names_.end(1);
  lookup({"of the process", "of the job"});
  EXPECT_EQ(numbers_, (std::vector<int>{1, 2}));
  names_.end(0);
  lookup({"of the process", "of the job"});
  EXPECT_EQ(numbers_, (std::vector<int>{2}));
}

}  // namespace
}  // namespace runtime::pmix
