// SPDX-License-Identifier: Apache-2.0
// Owning file descriptors that a child process does not inherit, and non-blocking transfers over stream sockets.
// exec closes them (close-on-exec); after fork, the child closes all of them before fork() returns there: a connection
// that the child held open would hide the death of its parent.
#pragma once

#include <cstddef>
#include <utility>

#include "tests/portals4/wire.hpp"

namespace opal::test::portals4 {

class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { reset(); }

  /// Each returns an invalid descriptor, and leaves errno, if the system refuses.
  static Descriptor stream_socket();
  static Descriptor event();
  static Descriptor accepted(const Descriptor& listener);

  int get() const { return number_; }
  bool is_valid() const { return number_ >= 0; }
  void reset();

 private:
  explicit Descriptor(int number) : number_(number) {}
  int number_ = -1;
};

/// Handlers of fork(): between hold and release, no thread opens or closes a Descriptor.
void hold_descriptors();
void release_descriptors();
void close_descriptors_in_child();  ///< called between the two, in the child

enum class Transfer { complete, again, ended, fault };  ///< fault: the memory is not accessible

/// Receives until done == size.  done grows by what arrived, whatever the result.
Transfer receive(const Descriptor& socket, std::byte* to, std::size_t size, std::size_t& done);

/// Sends head, then body, until done is the size of both.
Transfer send(const Descriptor& socket, const std::byte* head, std::size_t head_size, const std::byte* body,
              std::size_t body_size, std::size_t& done);

/// The process at the other end, as the kernel knows it.
struct Peer {
  ptl_pid_t pid = 0;
  ptl_uid_t uid = 0;
};
Peer peer_of(const Descriptor& socket);

/// Binds the socket to the name of this process, and listens.  False, with errno, if that fails.
bool listen_as(const Descriptor& socket, ptl_pid_t pid);
/// Connects to the name of a process.  `again`: its queue of connections is full.
Transfer connect_to(const Descriptor& socket, ptl_pid_t pid);

}  // namespace opal::test::portals4
