// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/endpoint_book.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace opal::btl {
namespace {

struct One {
  explicit One(const PeerId& peer) : peer_(peer) {}
  [[nodiscard]] const PeerId& peer() const noexcept { return peer_; }
  PeerId peer_;
};

class Book : public ::testing::Test {
 protected:
  One& add(const PeerId& peer) { return book.add(std::make_unique<One>(peer)); }
  EndpointBook<One> book;
  const PeerId peer = PeerId::random();
};

TEST_F(Book, AnEndedEndpointIsReportedOnceAndStaysUntilItIsTaken) {
  One& one = add(peer);
  EXPECT_EQ(book.find(peer), &one);
  book.end(one);
  book.end(one);
  EXPECT_EQ(book.find(peer), nullptr);
  EXPECT_EQ(book.next_to_report(), &one);
  EXPECT_EQ(book.next_to_report(), nullptr);
  EXPECT_EQ(book.any(), &one);
  EXPECT_EQ(book.take(one).get(), &one);
  EXPECT_EQ(book.any(), nullptr);
}

TEST_F(Book, AnEndpointThatWasTakenIsNotReported) {
  One& one = add(peer);
  book.end(one);
  const auto taken = book.take(one);
  EXPECT_FALSE(book.has_to_report());
  EXPECT_EQ(book.take(one), nullptr);
}

TEST_F(Book, ThePeersNextEndpointIsNotTheEndedOne) {
  One& first = add(peer);
  book.end(first);
  One& second = add(peer);
  EXPECT_EQ(book.find(peer), &second);
  book.end(first);  // it does not live: the second one is not touched
  EXPECT_EQ(book.find(peer), &second);
  EXPECT_EQ(book.take(first).get(), &first);
  EXPECT_EQ(book.find(peer), &second);
}

TEST_F(Book, ItTellsOfWhichPeerAnEndIsToBeReported) {
  book.end(add(peer));
  add(peer);
  EXPECT_TRUE(book.has_to_report(peer));
  EXPECT_FALSE(book.has_to_report(PeerId::random()));
  EXPECT_NE(book.next_to_report(), nullptr);
  EXPECT_FALSE(book.has_to_report(peer));
}

TEST_F(Book, EndsAreReportedInTheirOrder) {
  One& first = add(peer);
  One& second = add(PeerId::random());
  book.end(second);
  book.end(first);
  EXPECT_EQ(book.next_to_report(), &second);
  EXPECT_EQ(book.next_to_report(), &first);
}

}  // namespace
}  // namespace opal::btl
