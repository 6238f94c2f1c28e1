// SPDX-License-Identifier: Apache-2.0
// The order of messages when the interface refuses some of them.
#include <gtest/gtest.h>

#include "opal/btl/portals4/messages/flows.hpp"

namespace opal::btl::portals4 {
namespace {

std::vector<std::byte> bytes(std::uint8_t value) { return {std::byte{value}}; }

class Portals4Flow : public ::testing::Test {
 protected:
  void SetUp() override {
    for (SendBuffer& buffer : buffers) {
      buffer.number = flow.next_number();
      flow.on_posted();
    }
  }
  Flow flow{1};
  SendBuffer buffers[4];
};

TEST_F(Portals4Flow, ARefusedMessageIsSentAgainAloneAndTheOthersFollowOnceItIsAccepted) {
  flow.on_refused(buffers[2]);
  EXPECT_TRUE(flow.blocked());
  EXPECT_EQ(flow.to_repeat(), nullptr) << "answers must come first";
  flow.on_refused(buffers[1]);
  flow.on_ended();  // 0
  flow.on_refused(buffers[3]);
  ASSERT_EQ(flow.to_repeat(), &buffers[1]) << "the oldest first";
  flow.on_repeated();
  EXPECT_EQ(flow.to_repeat(), nullptr) << "alone";
  flow.on_ended();
  ASSERT_EQ(flow.to_repeat(), &buffers[2]);
  flow.on_repeated();
  ASSERT_EQ(flow.to_repeat(), &buffers[3]) << "without a pause";
  flow.on_repeated();
  EXPECT_FALSE(flow.blocked());
}

TEST_F(Portals4Flow, TheOnlyRefusedMessageIsSentAgainAlone) {
  flow.on_refused(buffers[0]);
  for (int i = 1; i < 4; ++i) flow.on_ended();
  ASSERT_EQ(flow.to_repeat(), &buffers[0]);
  flow.on_repeated();
  EXPECT_TRUE(flow.blocked()) << "a new message would be refused as well";
  flow.on_ended();
  EXPECT_FALSE(flow.blocked());
}

TEST_F(Portals4Flow, AMessageThatIsRefusedAgainStaysTheFirst) {
  for (SendBuffer& buffer : buffers) flow.on_refused(buffer);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(flow.to_repeat(), &buffers[0]);
    flow.on_repeated();
    flow.on_refused(buffers[0]);
  }
  EXPECT_EQ(flow.give_up().size(), 4U);
  EXPECT_FALSE(flow.blocked());
}

TEST(Portals4FlowArrival, EarlyMessagesWaitForThoseBefore) {
  Flow flow{1};
  EXPECT_EQ(flow.on_arrival(2, bytes(2)), Flow::Arrival::early);
  EXPECT_EQ(flow.on_arrival(1, bytes(1)), Flow::Arrival::early);
  EXPECT_TRUE(flow.take_due().empty());
  EXPECT_EQ(flow.on_arrival(0, bytes(0)), Flow::Arrival::in_order);
  EXPECT_EQ(flow.take_due(), bytes(1));
  EXPECT_EQ(flow.take_due(), bytes(2));
  EXPECT_TRUE(flow.take_due().empty());
  EXPECT_EQ(flow.on_arrival(3, bytes(3)), Flow::Arrival::in_order);
}

TEST(Portals4FlowArrival, RepeatedAndFarNumbersAreWrong) {
  Flow flow{1};
  EXPECT_EQ(flow.on_arrival(0, bytes(0)), Flow::Arrival::in_order);
  EXPECT_EQ(flow.on_arrival(0, bytes(0)), Flow::Arrival::wrong);
  EXPECT_EQ(flow.on_arrival(5, bytes(5)), Flow::Arrival::early);
  EXPECT_EQ(flow.on_arrival(5, bytes(5)), Flow::Arrival::wrong);
  EXPECT_EQ(flow.on_arrival(Flow::kMostEarly + 2, bytes(9)), Flow::Arrival::wrong);
  EXPECT_EQ(flow.on_arrival(~std::uint64_t{0}, bytes(9)), Flow::Arrival::wrong);
}

}  // namespace
}  // namespace opal::btl::portals4
