// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/knem.hpp — single copy through the KNEM kernel module.  The owner of memory makes a region of
// it, named by a cookie.  With the cookie, the kernel copies between the region and memory of the calling process.
//   KnemDevice     the module's interface, one function per ioctl; tests replace it
//   KnemRegions    the owner's side: a region pins its pages, so one is made only when a peer requests it; it ends with
//                  the registration, at a fork, or when there are too many
//   KnemMechanism  the initiator's side: requests cookies and caches them
// Copies are synchronous: the module's threads and DMA engines are not used.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/sm/single_copy/copy_mechanism.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fork_listener.hpp"

namespace opal::btl::sm {

/// The KNEM device.  Threads: any.
class OPAL_EXPORT KnemDevice {
 public:
  virtual ~KnemDevice() = default;
  /// Opens the kernel's device.  Errors: not_supported (no /dev/knem, no permission, or another ABI version).
  static Result<std::shared_ptr<KnemDevice>> open();

  /// Makes a region of [base, +size) and pins it.  Returns its cookie, never 0.  Errors: invalid_argument (not all of
  /// the memory is readable and writable), no_memory, not_supported.
  virtual Result<std::uint64_t> create(std::uint64_t base, std::uint64_t size) noexcept = 0;
  /// Ends a region of create() and unpins it.
  virtual void destroy(std::uint64_t cookie) noexcept = 0;
  /// Copies all of [here, +size) from or to (`write`) the region, beginning at `offset` in it.
  /// Errors: busy (no region has this cookie), invalid_argument (`here` is not accessible), not_supported (the copy has
  /// failed; how much was copied is unknown).
  virtual Result<void> copy(std::uint64_t cookie, std::uint64_t offset, std::byte* here, std::uint64_t size,
                            bool write) noexcept = 0;
};

/// An owner's answer to a request for a cookie.
struct KnemCookie {
  SoftwareHandle region{};   ///< the registration that the cookie covers, as in the owner's table
  std::uint64_t cookie = 0;  ///< 0: refused
};

/// Cookies of this process's registrations.  After a fork a written page is a new physical page (copy on write), while
/// a region keeps the old one.  So all regions end before a fork, and peers request new cookies.  Threads: any.
class OPAL_EXPORT KnemRegions final : private RegistrationTable::Follower, private ForkListener {
 public:
  static constexpr std::size_t kMost = 1024;  ///< maximum of regions; the oldest region ends for a new one

  /// `registrations` must outlive it.
  KnemRegions(std::shared_ptr<KnemDevice> device, RegistrationTable& registrations);
  ~KnemRegions();

  /// Makes or finds the region of the registration that `claimed` names by slot and generation.  Cookie 0: there is no
  /// such registration, or the device refuses.
  KnemCookie cookie_of(const SoftwareHandle& claimed) noexcept;
  /// The cookie of the ProbePage [base, +size), which is no registration; 0: the device refuses.
  std::uint64_t cookie_of_page(std::uint64_t base, std::uint64_t size) noexcept;

  [[nodiscard]] const std::shared_ptr<KnemDevice>& device() const noexcept { return device_; }

 private:
  KnemCookie make_locked(const SoftwareHandle& region) noexcept;
  void destroy_all_locked() noexcept;
  void registration_ended(std::uint64_t generation) noexcept override;
  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;

  const std::shared_ptr<KnemDevice> device_;
  RegistrationTable& registrations_;
  std::mutex mutex_;
  std::vector<KnemCookie> cookies_;  // oldest first; a generation names a registration for ever
  bool inherited_ = false;           // in a forked child: the device is the parent's
};

/// Copies by the cookies of one peer.  Threads: as the module.
class OPAL_EXPORT KnemMechanism final : public CopyMechanism {
 public:
  static constexpr std::size_t kMost = 64;           ///< maximum of cached cookies; the least recently used is evicted
  static constexpr std::uint64_t kPiece = 16 << 20;  ///< bytes of one ioctl
  using Ask = std::function<void(const SoftwareHandle& region)>;

  /// `page`: the cookie of the peer's ProbePage, from the handshake.
  KnemMechanism(std::shared_ptr<KnemDevice> device, const KnemCookie& page);

  /// Sets the function that requests a cookie from the peer.  Required before the first use.
  void on_need(Ask ask) { ask_ = std::move(ask); }
  /// Takes the peer's answer to a request.
  void take(const KnemCookie& answer) noexcept;

  [[nodiscard]] MechanismKind kind() const noexcept override { return MechanismKind::knem; }
  [[nodiscard]] bool reaches_all() const noexcept override { return false; }
  [[nodiscard]] bool reaches(const RemoteRange& range) noexcept override { return find(range) != nullptr; }
  CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept override;

 private:
  struct Entry {
    KnemCookie known;
    bool answered;       // false: the request has no answer yet
    std::uint64_t used;  // value of uses_ at the last use
  };
  /// The entry whose cookie covers `range`, valid until entries_ changes; null: none.  Requests an unknown cookie.
  Entry* find(const RemoteRange& range) noexcept;

  std::shared_ptr<KnemDevice> device_;
  Ask ask_;
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
  int stale_ = 0;  // successive copies for whose cookie the device had no region
};

}  // namespace opal::btl::sm
