// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/knem.hpp — single copy through the KNEM kernel module.  The owner of memory makes a region of
// it, named by a cookie.  With the cookie, the kernel copies between the region and memory of the calling process.
//   KnemDevice     the module's interface, one function per ioctl; tests replace it
//   KnemRegions    the owner's side: a region pins its pages, so it exists only for registrations that a peer has asked
//                  for, and ends with the registration
//   KnemMechanism  the initiator's side: asks for cookies and remembers them
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

/// Threads: any.
class OPAL_EXPORT KnemDevice {
 public:
  virtual ~KnemDevice() = default;
  /// The kernel's.  Errors: not_supported (no /dev/knem, not for us, or of another version).
  static Result<std::shared_ptr<KnemDevice>> open();

  /// Pins [base, +size), which must be readable and writable; a cookie, never 0.  Errors: invalid_argument (not all of
  /// it is such memory), no_memory, not_supported.
  virtual Result<std::uint64_t> create(std::uint64_t base, std::uint64_t size) noexcept = 0;
  /// Of a cookie that this device has made.
  virtual void destroy(std::uint64_t cookie) noexcept = 0;
  /// Copies all of [here, +size) from or to (`write`) the region, beginning at `offset` in it.
  /// Errors: busy (no such cookie, or not any more), invalid_argument (`here`), not_supported (the copy has
  /// failed at an unknown place).
  virtual Result<void> copy(std::uint64_t cookie, std::uint64_t offset, std::byte* here, std::uint64_t size,
                            bool write) noexcept = 0;
};

/// What an owner answers: the cookie covers `region`, as the owner's table has it.
struct KnemCookie {
  SoftwareHandle region{};
  std::uint64_t cookie = 0;  ///< 0: there is none
};

/// Cookies of this process's registrations.  A fork gives written pages new places while a region keeps the old ones:
/// therefore all cookies end there, and peers ask again.  Threads: any.
class OPAL_EXPORT KnemRegions final : private RegistrationTable::Follower, private ForkListener {
 public:
  static constexpr std::size_t kMost = 1024;  ///< the one asked for longest ago goes

  /// `registrations` outlives it.
  KnemRegions(std::shared_ptr<KnemDevice> device, RegistrationTable& registrations);
  ~KnemRegions();

  /// For the live registration that `claimed` names.
  KnemCookie cookie_of(const SoftwareHandle& claimed) noexcept;
  /// For [base, +size), which is no registration; there can be one such.
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
  std::vector<KnemCookie> cookies_;  // by generation, which never comes again; oldest first
  bool inherited_ = false;           // forked: the device is the parent's
};

/// Threads: as the module.
class OPAL_EXPORT KnemMechanism final : public CopyMechanism {
 public:
  static constexpr std::size_t kMost = 64;           ///< cookies remembered; the one unused longest goes
  static constexpr std::uint64_t kPiece = 16 << 20;  ///< bytes of one call
  using Ask = std::function<void(const SoftwareHandle& region)>;

  /// `page` is known from the start.
  KnemMechanism(std::shared_ptr<KnemDevice> device, const KnemCookie& page);

  /// Must be said before the first use: how to ask the peer for a cookie.
  void on_need(Ask ask) { ask_ = std::move(ask); }
  /// The answer.
  void take(const KnemCookie& answer) noexcept;

  [[nodiscard]] MechanismKind kind() const noexcept override { return MechanismKind::knem; }
  [[nodiscard]] bool reaches_all() const noexcept override { return false; }
  [[nodiscard]] bool reaches(const RemoteRange& range) noexcept override { return find(range) != nullptr; }
  CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept override;

 private:
  struct Entry {
    KnemCookie known;
    bool answered;
    std::uint64_t used;
    AskAgain again;
  };
  /// The cookie that covers a range; asks for it when it is not known.
  Entry* find(const RemoteRange& range) noexcept;

  std::shared_ptr<KnemDevice> device_;
  Ask ask_;
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
  int stale_ = 0;  // cookies in a row that the device did not know
};

}  // namespace opal::btl::sm
