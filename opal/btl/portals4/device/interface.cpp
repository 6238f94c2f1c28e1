// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/portals4/device/interface.hpp"

namespace opal::btl::portals4 {

Result<Interface> Interface::open(const std::string& name) {
  OPAL_TRY_ASSIGN(const Library* const library, load_library(name));
  Interface interface { *library };
  const unsigned int options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
  if (const int result =
          library->ni_init(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, nullptr, &interface.limits_, &interface.handle_);
      result != PTL_OK) {
    interface.handle_ = PTL_INVALID_HANDLE;
    return error_of(result, "PtlNIInit");
  }
  if (const int result = library->get_phys_id(interface.handle_, &interface.process_); result != PTL_OK) {
    return error_of(result, "PtlGetPhysId");
  }
  return interface;
}

Interface::~Interface() {
  if (library_ != nullptr && handle_ != PTL_INVALID_HANDLE) (void)library_->ni_fini(handle_);
}

Result<Objects> Objects::create(const Interface& interface, std::size_t arrivals, std::size_t ends) {
  const Library& library = interface.library();
  const ptl_handle_ni_t ni = interface.handle();
  Objects objects{interface};
  int result = library.eq_alloc(ni, arrivals, &objects.arrivals_);
  if (result != PTL_OK) return error_of(result, "PtlEQAlloc");
  result = library.eq_alloc(ni, ends, &objects.ends_);
  if (result != PTL_OK) return error_of(result, "PtlEQAlloc");
  ptl_md_t memory{};
  memory.start = nullptr;
  memory.length = PTL_SIZE_MAX;
  memory.options = PTL_MD_EVENT_SEND_DISABLE;
  memory.eq_handle = objects.ends_;
  memory.ct_handle = PTL_CT_NONE;
  result = library.md_bind(ni, &memory, &objects.memory_);
  if (result != PTL_OK) return error_of(result, "PtlMDBind");
  result = library.pt_alloc(ni, PTL_PT_FLOWCTRL, objects.arrivals_, PTL_PT_ANY, &objects.message_entry_);
  if (result != PTL_OK) return error_of(result, "PtlPTAlloc");
  result = library.pt_alloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &objects.memory_entry_);
  if (result != PTL_OK) return error_of(result, "PtlPTAlloc");
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
