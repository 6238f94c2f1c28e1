// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/portals4/device/interface.hpp"

#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "opal/core/clock.hpp"

namespace opal::btl::portals4 {
namespace {

constexpr std::chrono::milliseconds kUnlinkTime{2'000};

}  // namespace

Result<const Interface*> Interface::open(const std::string& name) {
  struct Opened {
    std::unique_ptr<Interface> interface;
    pid_t process = 0;
    std::vector<std::unique_ptr<Interface>> of_parents;  // modules that a parent has left to this child refer to them
  };
  static std::mutex mutex;
  static std::map<std::string, Opened> all;
  const std::lock_guard lock{mutex};
  Opened& opened = all[name];
  if (opened.interface != nullptr && opened.process == ::getpid()) return opened.interface.get();
  OPAL_TRY_ASSIGN(const Library library, load_library(name));
  std::unique_ptr<Interface> interface {
    new Interface { library }
  };
  OPAL_TRY(interface->start());
  if (opened.interface != nullptr) opened.of_parents.push_back(std::move(opened.interface));
  opened.interface = std::move(interface);
  opened.process = ::getpid();
  return opened.interface.get();
}

Result<void> Interface::start() noexcept {
  OPAL_TRY(check(library_.init(), "PtlInit"));
  const unsigned int options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
  OPAL_TRY(check(library_.ni_init(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, nullptr, &limits_, &handle_), "PtlNIInit"));
  return check(library_.get_phys_id(handle_, &process_), "PtlGetPhysId");
}

int Interface::unlink(ptl_handle_me_t entry) const noexcept {
  const Deadline deadline = Deadline::after(kUnlinkTime);
  int result = PTL_IN_USE;
  while ((result = library_.me_unlink(entry)) == PTL_IN_USE && !deadline.expired()) {
  }
  return result;
}

Result<Objects> Objects::create(const Interface& interface, std::size_t arrivals, std::size_t ends) {
  const Library& library = interface.library();
  const ptl_handle_ni_t ni = interface.handle();
  Objects objects{interface};
  OPAL_TRY(check(library.eq_alloc(ni, arrivals, &objects.arrivals_), "PtlEQAlloc"));
  OPAL_TRY(check(library.eq_alloc(ni, ends, &objects.ends_), "PtlEQAlloc"));
  ptl_md_t memory{};
  memory.start = nullptr;
  memory.length = PTL_SIZE_MAX;
  memory.options = PTL_MD_EVENT_SEND_DISABLE;
  memory.eq_handle = objects.ends_;
  memory.ct_handle = PTL_CT_NONE;
  OPAL_TRY(check(library.md_bind(ni, &memory, &objects.memory_), "PtlMDBind"));
  OPAL_TRY(check(library.pt_alloc(ni, PTL_PT_FLOWCTRL, objects.arrivals_, PTL_PT_ANY, &objects.message_entry_),
                 "PtlPTAlloc"));
  OPAL_TRY(check(library.pt_alloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &objects.memory_entry_), "PtlPTAlloc"));
  return objects;
}

Objects::~Objects() {
  if (interface_ == nullptr) return;
  const Library& library = interface_->library();
  if (memory_entry_ != PTL_PT_ANY) (void)library.pt_free(interface_->handle(), memory_entry_);
  if (message_entry_ != PTL_PT_ANY) (void)library.pt_free(interface_->handle(), message_entry_);
  if (memory_ != PTL_INVALID_HANDLE) (void)library.md_release(memory_);
  if (ends_ != PTL_EQ_NONE) (void)library.eq_free(ends_);
  if (arrivals_ != PTL_EQ_NONE) (void)library.eq_free(arrivals_);
}

}  // namespace opal::btl::portals4
