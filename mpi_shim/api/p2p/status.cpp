// SPDX-License-Identifier: Apache-2.0
// What a status says about the amount of data.
#include <algorithm>

#include <climits>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/request/status.hpp"

namespace {

using mpi_shim::api::Call;

template <class Count>
const mpi_shim::datatype::Datatype* check(Call& call, const MPI_Status* status, MPI_Datatype datatype, Count* count) {
  if (call.failed()) return nullptr;
  const auto* const type = call.type(datatype);
  call.pointer(status, "status");
  call.pointer(count, "count");
  return type;
}

/// Whole instances of the datatype; MPI_UNDEFINED when the bytes are no whole number of them.
template <class Count>
int get_count(const char* function, const MPI_Status* status, MPI_Datatype datatype, Count* count, MPI_Count largest) {
  Call call{function};
  const auto* const type = check(call, status, datatype, count);
  if (call.failed()) return call.error();
  const auto bytes = static_cast<MPI_Count>(mpi_shim::bytes_of(*status));
  const MPI_Count size = type->size();
  MPI_Count instances = 0;
  if (bytes != 0) instances = size == 0 || bytes % size != 0 ? MPI_UNDEFINED : bytes / size;
  *count = static_cast<Count>(instances > largest ? MPI_UNDEFINED : instances);
  return MPI_SUCCESS;
}

template <class Count>
int get_elements(const char* function, const MPI_Status* status, MPI_Datatype datatype, Count* count,
                 MPI_Count largest) {
  Call call{function};
  const auto* const type = check(call, status, datatype, count);
  if (call.failed()) return call.error();
  const auto found = type->signature().elements_in(static_cast<std::int64_t>(mpi_shim::bytes_of(*status)));
  const bool whole = found.rest == 0 && found.elements <= largest;
  *count = static_cast<Count>(whole ? found.elements : MPI_UNDEFINED);
  return MPI_SUCCESS;
}

int set_elements(const char* function, MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
  Call call{function};
  if (call.failed()) return call.error();
  const auto* const type = call.type(datatype);
  call.pointer(status, "status");
  if (count < 0) call.fail_count(count);
  if (call.failed()) return call.error();
  // `count` basic elements: whole instances, and then the ones of a last, partial instance.
  const auto& signature = type->signature();
  std::int64_t bytes = 0;
  std::int64_t left = count;
  if (signature.elements() != 0) {
    bytes = left / signature.elements() * signature.bytes();
    left %= signature.elements();
    signature.for_each_run([&](const mpi_shim::datatype::SignatureRun& run) {
      const std::int64_t taken = std::min(run.count * run.elements, left);
      bytes += taken / run.elements * run.bytes;
      if (taken % run.elements != 0) {  // the value of a pair without its index
        bytes += mpi_shim::datatype::info(mpi_shim::datatype::info(run.element).first).size;
      }
      left -= taken;
    });
  }
  mpi_shim::set_bytes(*status, static_cast<std::uint64_t>(bytes));
  return MPI_SUCCESS;
}

constexpr MPI_Count kNoLimit = INT64_MAX;

}  // namespace

OPAL_MPI_FUNCTION(int, Get_count, (const MPI_Status* status, MPI_Datatype datatype, int* count)) {
  return get_count("MPI_Get_count", status, datatype, count, INT_MAX);
}
OPAL_MPI_FUNCTION(int, Get_count_c, (const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count)) {
  return get_count("MPI_Get_count_c", status, datatype, count, kNoLimit);
}
OPAL_MPI_FUNCTION(int, Get_elements, (const MPI_Status* status, MPI_Datatype datatype, int* count)) {
  return get_elements("MPI_Get_elements", status, datatype, count, INT_MAX);
}
OPAL_MPI_FUNCTION(int, Get_elements_c, (const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count)) {
  return get_elements("MPI_Get_elements_c", status, datatype, count, kNoLimit);
}
OPAL_MPI_FUNCTION(int, Get_elements_x, (const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count)) {
  return get_elements("MPI_Get_elements_x", status, datatype, count, kNoLimit);
}
OPAL_MPI_FUNCTION(int, Status_set_elements, (MPI_Status * status, MPI_Datatype datatype, int count)) {
  return set_elements("MPI_Status_set_elements", status, datatype, count);
}
OPAL_MPI_FUNCTION(int, Status_set_elements_c, (MPI_Status * status, MPI_Datatype datatype, MPI_Count count)) {
  return set_elements("MPI_Status_set_elements_c", status, datatype, count);
}
OPAL_MPI_FUNCTION(int, Status_set_elements_x, (MPI_Status * status, MPI_Datatype datatype, MPI_Count count)) {
  return set_elements("MPI_Status_set_elements_x", status, datatype, count);
}
