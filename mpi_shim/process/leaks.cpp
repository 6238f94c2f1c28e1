// SPDX-License-Identifier: Apache-2.0
// The report of MPI objects that the program has not freed (mpi_leak_report).
#include <fmt/format.h>

#include <cstdio>

#include "mpi_shim/comm/communicator.hpp"
#include "mpi_shim/process/process.hpp"
#include "mpi_shim/request/done_requests.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim {
namespace {

using handle::Kind;
using handle::Object;

struct KindName {
  Kind kind;
  const char* one;
};
constexpr KindName kKinds[] = {{Kind::comm, "communicator"}, {Kind::datatype, "datatype"},
                               {Kind::win, "window"},        {Kind::request, "request"},
                               {Kind::group, "group"},       {Kind::op, "operation"},
                               {Kind::info, "info object"},  {Kind::errhandler, "error handler"},
                               {Kind::message, "message"}};
constexpr int kMostNamed = 4;  // of each kind

/// The name that the program has set, or the handle.
std::string name_of(Kind kind, const Object& object) {
  std::string name;
  if (kind == Kind::comm) name = static_cast<const comm::Communicator&>(object).name;
  if (kind == Kind::datatype) name = static_cast<const datatype::Datatype&>(object).name;
  if (kind == Kind::win) name = static_cast<const rma::Window&>(object).name;
  return name.empty() ? fmt::format("{:#x}", object.handle()) : name;
}

/// Whether it is a predefined datatype, which the program cannot free.
bool is_our_own(Kind kind, const Object& object) {
  return kind == Kind::datatype && static_cast<const datatype::Datatype&>(object).predefined_handle() != 0;
}

}  // namespace

void Process::report_leaks() const {
  if (!reports_leaks_) return;
  const auto print = [&](const std::string& line) {
    std::fprintf(stderr, "rank %d: MPI_Finalize: %s\n", job_->rank(), line.c_str());
  };
  const std::uintptr_t shared[] = {done_send_request().handle(), no_proc_receive_request().handle()};
  const handle::Arena& arena = handle::Arena::process();
  for (const KindName& kind : kKinds) {
    int count = 0;
    std::string names;
    // The first word of a slot with an object is its magic word, which also tells whether the handle is valid.
    for (int number = 0; arena.is_slot_address(arena.slot_address(number)); ++number) {
      const std::uintptr_t address = arena.slot_address(number);
      const auto* object = reinterpret_cast<const Object*>(address);
      if (object->magic() != Object::live_magic(kind.kind) || is_our_own(kind.kind, *object)) continue;
      if (address == shared[0] || address == shared[1]) continue;
      if (++count <= kMostNamed) names += (count == 1 ? "" : ", ") + name_of(kind.kind, *object);
    }
    if (count == 0) continue;
    print(fmt::format("{} {}{} not freed: {}{}", count, kind.one, count == 1 ? "" : "s", names,
                      count > kMostNamed ? ", ..." : ""));
  }
  if (const opal::mpool::Usage usage = job_->memory_usage(); usage.blocks != 0) {
    print(fmt::format("{} blocks of MPI_Alloc_mem not freed: {} bytes", usage.blocks, usage.used));
  }
}

}  // namespace mpi_shim
