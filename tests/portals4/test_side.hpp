// SPDX-License-Identifier: Apache-2.0
// For the tests of the double: an initialized process with its queues, and a child process with pipes.
#pragma once

#include <gtest/gtest.h>
#include <portals4.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <utility>

namespace opal::test::portals4 {

/// A process with an interface, a queue for its own operations, one for those of others, and a portal table entry.
/// Offsets into `memory` are addresses: it covers the whole address space.
class Side {
 public:
  explicit Side(unsigned portal_options = 0, ptl_size_t target_events = 1024) {
    EXPECT_EQ(PtlInit(), PTL_OK);
    const unsigned options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
    EXPECT_EQ(PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, nullptr, &limits, &ni), PTL_OK);
    EXPECT_EQ(PtlGetPhysId(ni, &id), PTL_OK);
    EXPECT_EQ(PtlEQAlloc(ni, 1024, &initiator_queue), PTL_OK);
    EXPECT_EQ(PtlEQAlloc(ni, target_events, &target_queue), PTL_OK);
    EXPECT_EQ(PtlPTAlloc(ni, portal_options, target_queue, PTL_PT_ANY, &portal), PTL_OK);
    memory = bind(0);
  }
  ~Side() {
    EXPECT_EQ(PtlNIFini(ni), PTL_OK);
    PtlFini();
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  ptl_handle_md_t bind(unsigned options) const {
    const ptl_md_t fields{nullptr, PTL_SIZE_MAX, options, initiator_queue, PTL_CT_NONE};
    ptl_handle_md_t handle = PTL_INVALID_HANDLE;
    EXPECT_EQ(PtlMDBind(ni, &fields, &handle), PTL_OK);
    return handle;
  }

  static ptl_me_t entry(void* start, ptl_size_t length, unsigned options, ptl_match_bits_t bits = 0) {
    ptl_me_t fields{};
    fields.start = start;
    fields.length = length;
    fields.ct_handle = PTL_CT_NONE;
    fields.uid = PTL_UID_ANY;
    fields.options = options | PTL_ME_EVENT_LINK_DISABLE;
    fields.match_id.phys.nid = PTL_NID_ANY;
    fields.match_id.phys.pid = PTL_PID_ANY;
    fields.match_bits = bits;
    return fields;
  }
  ptl_handle_me_t append(const ptl_me_t& fields, void* user_ptr = nullptr) const {
    ptl_handle_me_t handle = PTL_INVALID_HANDLE;
    EXPECT_EQ(PtlMEAppend(ni, portal, &fields, PTL_PRIORITY_LIST, user_ptr, &handle), PTL_OK);
    return handle;
  }

  static ptl_size_t at(const void* address) { return reinterpret_cast<ptl_size_t>(address); }
  void put(const void* from, ptl_size_t length, ptl_process_t to, ptl_match_bits_t bits = 0, ptl_size_t offset = 0,
           void* user_ptr = nullptr, ptl_hdr_data_t hdr_data = 0) const {
    EXPECT_EQ(PtlPut(memory, at(from), length, PTL_ACK_REQ, to, portal, bits, offset, user_ptr, hdr_data), PTL_OK);
  }
  void get(void* into, ptl_size_t length, ptl_process_t from, ptl_match_bits_t bits = 0, ptl_size_t offset = 0) const {
    EXPECT_EQ(PtlGet(memory, at(into), length, from, portal, bits, offset, into), PTL_OK);
  }

  /// The next event of a queue, which has to arrive within 20 s.
  static ptl_event_t next(ptl_handle_eq_t queue) {
    ptl_event_t event{};
    unsigned which = 0;
    EXPECT_EQ(PtlEQPoll(&queue, 1, 20000, &event, &which), PTL_OK);
    return event;
  }
  static void expect(ptl_handle_eq_t queue, ptl_event_kind_t type, ptl_ni_fail_t fail = PTL_NI_OK) {
    const ptl_event_t event = next(queue);
    EXPECT_EQ(int{event.type}, int{type});
    EXPECT_EQ(int{event.ni_fail_type}, int{fail});
  }
  void expect_own(ptl_event_kind_t type, ptl_ni_fail_t fail = PTL_NI_OK) const { expect(initiator_queue, type, fail); }
  void expect_target(ptl_event_kind_t type, ptl_ni_fail_t fail = PTL_NI_OK) const { expect(target_queue, type, fail); }
  void expect_acknowledged(ptl_ni_fail_t fail = PTL_NI_OK) const {
    expect_own(PTL_EVENT_SEND);
    expect_own(PTL_EVENT_ACK, fail);
  }
  static void expect_empty(ptl_handle_eq_t queue) {
    ptl_event_t event{};
    EXPECT_EQ(PtlEQGet(queue, &event), PTL_EQ_EMPTY) << "type " << int{event.type};
  }

  ptl_ni_limits_t limits{};
  ptl_handle_ni_t ni = PTL_INVALID_HANDLE;
  ptl_process_t id{};
  ptl_handle_eq_t initiator_queue = PTL_EQ_NONE;
  ptl_handle_eq_t target_queue = PTL_EQ_NONE;
  ptl_pt_index_t portal = PTL_PT_ANY;
  ptl_handle_md_t memory = PTL_INVALID_HANDLE;
};

/// A process that runs a function with this object as its argument.  Both sides exchange values over pipes.
/// The child ends with status 0 if its expectations hold.
class Child {
 public:
  template <class Run>
  explicit Child(Run run) {
    int down[2];
    int up[2];
    EXPECT_EQ(::pipe(down), 0);
    EXPECT_EQ(::pipe(up), 0);
    pid_ = ::fork();
    const bool is_child = pid_ == 0;
    input_ = is_child ? down[0] : up[0];
    output_ = is_child ? up[1] : down[1];
    ::close(is_child ? down[1] : up[1]);
    ::close(is_child ? up[0] : down[0]);
    if (!is_child) return;
    ::alarm(60);
    run(*this);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  ~Child() {
    ::close(input_);
    ::close(output_);
    if (pid_ > 0) {
      EXPECT_EQ(wait(), 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  template <class T>
  void tell(const T& value) const {
    EXPECT_EQ(::write(output_, &value, sizeof value), static_cast<ssize_t>(sizeof value));
  }
  template <class T>
  T hear() const {
    T value{};
    EXPECT_EQ(::read(input_, &value, sizeof value), static_cast<ssize_t>(sizeof value));
    return value;
  }
  /// In the child: waits until the parent closes its end.
  void wait_for_end() const {
    char unused = 0;
    while (::read(input_, &unused, 1) > 0) {
    }
  }
  void signal(int number) const { EXPECT_EQ(::kill(pid_, number), 0); }
  void stop() const {
    signal(SIGSTOP);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
  }
  void kill() {
    signal(SIGKILL);
    EXPECT_EQ(wait(), SIGKILL);
  }
  /// The exit code, or the signal that ended the process.
  int wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(pid_, -1), &status, 0) > 0, true);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
};

}  // namespace opal::test::portals4
