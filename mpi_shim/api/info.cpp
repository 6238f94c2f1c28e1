// SPDX-License-Identifier: Apache-2.0
// Info objects.  They may be used before MPI_Init and after MPI_Finalize.  A failed check leaves the MPI function
// (call.hpp), so checked() never returns null.
#include <algorithm>
#include <cstring>

#include "mpi_shim/api/forward.hpp"

namespace mpi_shim::api {
namespace {

info::Info* checked(Call& call, MPI_Info handle) {
  return call.find<info::Info>(handle, MPI_ERR_INFO, "info", "info object");
}

info::Info* checked_writable(Call& call, MPI_Info handle) {
  info::Info* const info = checked(call, handle);
  if (info->is_predefined()) call.fail(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed");
  return info;
}

void check_key(Call& call, const char* key) {
  if (key == nullptr || key[0] == '\0' || std::strlen(key) > MPI_MAX_INFO_KEY - 1) {
    call.fail(MPI_ERR_INFO_KEY, "argument key is null, empty or longer than MPI_MAX_INFO_KEY - 1");
  }
}

/// The value of a key; null if there is none.  Sets *flag accordingly.
const std::string* find_value(Call& call, MPI_Info handle, const char* key, int* flag) {
  const info::Info* const info = checked(call, handle);
  check_key(call, key);
  const std::string* const found = info->find(key);
  *flag = found != nullptr;
  return found;
}

/// Copies at most `room` characters of `value` and a zero byte to `target`.
void store(const std::string& value, char* target, std::size_t room) {
  const std::size_t length = std::min(value.size(), room);
  *std::copy_n(value.begin(), length, target) = '\0';
}

}  // namespace

OPAL_MPI_CALL_ANY_TIME(Info_create, (Call & call, MPI_Info* info)) { return call.answer_info({}, info); }

OPAL_MPI_CALL_ANY_TIME(Info_create_env, (Call & call, int argc, char* argv[], MPI_Info* info)) {
  const std::span<char* const> arguments{argv, argv != nullptr && argc > 0 ? static_cast<std::size_t>(argc) : 0};
  return call.answer_info(info::describe_environment(arguments, 0, MPI_THREAD_SINGLE), info);
}

// The properties that the ABI leaves to the platform: sizes of types, in bytes.
OPAL_MPI_CALL_ANY_TIME(Abi_get_info, (Call & call, MPI_Info* info)) {
  return call.answer_info({{"mpi_aint_size", std::to_string(sizeof(MPI_Aint))},
                           {"mpi_count_size", std::to_string(sizeof(MPI_Count))},
                           {"mpi_offset_size", std::to_string(sizeof(MPI_Offset))}},
                          info);
}

// The only resource type that MPI_Comm_split_type supports; "true": the process is restricted to one instance of it.
OPAL_MPI_CALL_ANY_TIME(Get_hw_resource_info, (Call & call, MPI_Info* hw_info)) {
  return call.answer_info({{"mpi_shared_memory", "true"}}, hw_info);
}

OPAL_MPI_CALL_ANY_TIME(Info_dup, (Call & call, MPI_Info info, MPI_Info* newinfo)) {
  const info::Info* const object = checked(call, info);
  return call.answer_info(object->entries(), newinfo);
}

OPAL_MPI_CALL_ANY_TIME(Info_free, (Call & call, MPI_Info* info)) {
  info::Info* const object = checked_writable(call, *info);
  object->retire();
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL_ANY_TIME(Info_set, (Call & call, MPI_Info info, const char* key, const char* value)) {
  info::Info* const object = checked_writable(call, info);
  check_key(call, key);
  if (value == nullptr || std::strlen(value) > MPI_MAX_INFO_VAL - 1) {
    call.fail(MPI_ERR_INFO_VALUE, "argument value is null or longer than MPI_MAX_INFO_VAL - 1");
  }
  object->set(key, value);
  return MPI_SUCCESS;
}

OPAL_MPI_CALL_ANY_TIME(Info_delete, (Call & call, MPI_Info info, const char* key)) {
  info::Info* const object = checked_writable(call, info);
  check_key(call, key);
  if (!object->erase(key)) call.fail(MPI_ERR_INFO_NOKEY, "argument key is not in the info object");
  return MPI_SUCCESS;
}

OPAL_MPI_CALL_ANY_TIME(Info_get, (Call & call, MPI_Info info, const char* key, int valuelen, char* value, int* flag)) {
  call.pointer(value, "value");
  if (valuelen < 0) call.fail(MPI_ERR_ARG, "argument valuelen is negative");
  const std::string* const found = find_value(call, info, key, flag);
  if (found != nullptr) store(*found, value, static_cast<std::size_t>(valuelen));
  return MPI_SUCCESS;
}

OPAL_MPI_CALL_ANY_TIME(Info_get_string,
                       (Call & call, MPI_Info info, const char* key, int* buflen, char* value, int* flag)) {
  if (*buflen > 0) call.pointer(value, "value");
  const std::string* const found = find_value(call, info, key, flag);
  if (found == nullptr) return MPI_SUCCESS;
  if (*buflen > 0) store(*found, value, static_cast<std::size_t>(*buflen - 1));
  *buflen = static_cast<int>(found->size()) + 1;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL_ANY_TIME(Info_get_valuelen, (Call & call, MPI_Info info, const char* key, int* valuelen, int* flag)) {
  const std::string* const found = find_value(call, info, key, flag);
  if (found != nullptr) *valuelen = static_cast<int>(found->size());
  return MPI_SUCCESS;
}

OPAL_MPI_CALL_ANY_TIME(Info_get_nkeys, (Call & call, MPI_Info info, int* nkeys)) {
  return call.answer(nkeys, static_cast<int>(checked(call, info)->entries().size()));
}

OPAL_MPI_CALL_ANY_TIME(Info_get_nthkey, (Call & call, MPI_Info info, int n, char* key)) {
  const info::Info* const object = checked(call, info);
  call.pointer(key, "key");
  if (n < 0 || static_cast<std::size_t>(n) >= object->entries().size()) {
    call.fail(MPI_ERR_INFO_KEY, "argument n is not the number of a key");
  }
  store(object->entries()[static_cast<std::size_t>(n)].first, key, MPI_MAX_INFO_KEY - 1);
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
