// SPDX-License-Identifier: Apache-2.0
// MPI_Get_count, MPI_Get_elements, MPI_Status_set_elements.
#include <algorithm>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/datatype/signature.hpp"
#include "mpi_shim/request/status.hpp"

namespace mpi_shim::api {
namespace {

/// The number of instances of the datatype; MPI_UNDEFINED if the bytes are not a whole number of instances.
template <class Count>
int get_count(Call& call, const MPI_Status* status, MPI_Datatype datatype, Count* count) {
  const auto* const type = call.type(datatype);
  call.pointer(status, "status");
  const auto bytes = static_cast<MPI_Count>(bytes_of(*status));
  const MPI_Count size = type->size();
  if (bytes == 0) return call.answer(count, 0);
  return call.answer(count, size == 0 || bytes % size != 0 ? Count{MPI_UNDEFINED} : narrowed<Count>(bytes / size));
}

template <class Count>
int get_elements(Call& call, const MPI_Status* status, MPI_Datatype datatype, Count* count) {
  const auto* const type = call.type(datatype);
  call.pointer(status, "status");
  const auto found = elements_in(*type, static_cast<std::int64_t>(bytes_of(*status)));
  return call.answer(count, found.rest == 0 ? narrowed<Count>(found.elements) : Count{MPI_UNDEFINED});
}

int set_elements(Call& call, MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
  const auto* const type = call.type(datatype);
  call.pointer(status, "status");
  if (count < 0) call.fail_count(count);
  // The bytes of `count` basic elements: those of whole instances, and those of a last, partial instance.
  const datatype::Signature& signature = type->signature();
  std::int64_t bytes = 0;
  std::int64_t left = count;
  if (signature.elements != 0) {
    bytes = left / signature.elements * type->size();
    left %= signature.elements;
    for_each_run(*type, 1, [&](const datatype::ElementRun& run) {
      const datatype::ElementInfo& element = datatype::info(run.element);
      const int parts = element.element_class == datatype::ElementClass::pair ? 2 : 1;
      const std::int64_t taken = std::min(run.count * parts, left);
      bytes += taken / parts * element.size;
      if (taken % parts != 0) bytes += datatype::info(element.first).size;  // the value of a pair without its index
      left -= taken;
    });
  }
  set_bytes(*status, static_cast<std::uint64_t>(bytes));
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FORWARD_BOTH(Get_count, get_count)
OPAL_MPI_FORWARD_BOTH(Get_elements, get_elements)
OPAL_MPI_FORWARD(Get_elements_x, get_elements)
OPAL_MPI_FORWARD_BOTH(Status_set_elements, set_elements)
OPAL_MPI_FORWARD(Status_set_elements_x, set_elements)

}  // namespace mpi_shim::api
