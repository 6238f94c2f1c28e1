// SPDX-License-Identifier: Apache-2.0
// Entry points: initialization, network interface, identity.
#include <atomic>

#include "tests/portals4/library.hpp"

using namespace opal::test::portals4;

/// The transport recognizes the double by this symbol.
extern "C" {
extern const int opal_portals4_double;
const int opal_portals4_double = 1;
}

int PtlInit() {
  Library& library = Library::current();
  const std::lock_guard lock{library.mutex};
  ++library.initializations;
  return PTL_OK;
}

namespace {

void close_interface(Library& library) {
  library.interface->close();
  library.interface.reset();
  library.interface_uses = 0;
}

}  // namespace

void PtlFini() {
  Library& library = Library::current();
  const std::lock_guard lock{library.mutex};
  if (library.initializations == 0 || --library.initializations != 0) return;
  if (library.interface != nullptr) close_interface(library);
}

int PtlNIInit(ptl_interface_t iface, unsigned int options, ptl_pid_t pid, const ptl_ni_limits_t* /*desired*/,
              ptl_ni_limits_t* actual, ptl_handle_ni_t* ni_handle) {
  Library& library = Library::current();
  const std::lock_guard lock{library.mutex};
  if (library.initializations == 0) return PTL_NO_INIT;
  if (iface != PTL_IFACE_DEFAULT && iface != 0) return PTL_ARG_INVALID;
  if (options != (PTL_NI_MATCHING | PTL_NI_PHYSICAL) || ni_handle == nullptr) return PTL_ARG_INVALID;
  if (library.interface == nullptr) {
    std::shared_ptr<Interface> opened = Interface::open();
    if (opened == nullptr) return PTL_FAIL;
    library.interface = std::move(opened);
  }
  if (pid != PTL_PID_ANY && pid != library.interface->pid) {
    if (library.interface_uses == 0) close_interface(library);
    return PTL_ARG_INVALID;
  }
  ++library.interface_uses;
  if (actual != nullptr) *actual = library.interface->limits;
  *ni_handle = kInterfaceHandle;
  return PTL_OK;
}

int PtlNIFini(ptl_handle_ni_t ni_handle) {
  Library& library = Library::current();
  const std::lock_guard lock{library.mutex};
  if (library.initializations == 0) return PTL_NO_INIT;
  if (ni_handle != kInterfaceHandle || library.interface == nullptr) return PTL_ARG_INVALID;
  if (--library.interface_uses == 0) close_interface(library);
  return PTL_OK;
}

int PtlGetUid(ptl_handle_ni_t ni_handle, ptl_uid_t* uid) {
  const Call call{ni_handle};
  if (call.result() == PTL_OK) *uid = call->uid;
  return call.result();
}

int PtlGetPhysId(ptl_handle_ni_t ni_handle, ptl_process_t* id) {
  const Call call{ni_handle};
  if (call.result() != PTL_OK) return call.result();
  id->phys.nid = kNid;
  id->phys.pid = call->pid;
  return PTL_OK;
}

int PtlAtomicSync() {
  const Call call;
  // Orders the accesses before and after, and ThreadSanitizer knows it, other than a fence.
  static std::atomic<unsigned> calls;
  calls.fetch_add(1, std::memory_order_seq_cst);
  return call.result() == PTL_NO_INIT ? PTL_NO_INIT : PTL_OK;
}
