// SPDX-License-Identifier: Apache-2.0
// Info objects.  They may be used before MPI_Init and after MPI_Finalize.
#include <algorithm>
#include <cstring>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"

namespace mpi_shim::api {
namespace {

info::Info* find(Call& call, MPI_Info handle) {
  auto* const info = handle::find<info::Info>(handle);
  if (info == nullptr) call.fail(MPI_ERR_INFO, "argument info is not a valid info object");
  return info;
}

info::Info* find_writable(Call& call, MPI_Info handle) {
  info::Info* const info = find(call, handle);
  if (info != nullptr && info->is_predefined()) call.fail(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed");
  return info;
}

void check_key(Call& call, const char* key) {
  if (key == nullptr || key[0] == '\0' || std::strlen(key) > MPI_MAX_INFO_KEY - 1) {
    call.fail(MPI_ERR_INFO_KEY, "argument key is null, empty or longer than MPI_MAX_INFO_KEY - 1");
  }
}

/// The value of a key; null if there is none.  Sets *flag accordingly.
const std::string* find_value(Call& call, MPI_Info handle, const char* key, int* flag) {
  const info::Info* const info = find(call, handle);
  check_key(call, key);
  call.pointer(flag, "flag");
  if (call.failed()) return nullptr;
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

OPAL_MPI_FUNCTION(int, Info_create, (MPI_Info * info)) {
  return Call{"MPI_Info_create", kAnyTime}.answer_info({}, info);
}

OPAL_MPI_FUNCTION(int, Info_create_env, (int argc, char* argv[], MPI_Info* info)) {
  const std::span<char* const> arguments{argv, argv != nullptr && argc > 0 ? static_cast<std::size_t>(argc) : 0};
  return Call{"MPI_Info_create_env", kAnyTime}.answer_info(info::describe_environment(arguments, 0, MPI_THREAD_SINGLE),
                                                           info);
}

// The properties that the ABI leaves to the platform: sizes of types, in bytes.
OPAL_MPI_FUNCTION(int, Abi_get_info, (MPI_Info * info)) {
  return Call{"MPI_Abi_get_info", kAnyTime}.answer_info({{"mpi_aint_size", std::to_string(sizeof(MPI_Aint))},
                                                         {"mpi_count_size", std::to_string(sizeof(MPI_Count))},
                                                         {"mpi_offset_size", std::to_string(sizeof(MPI_Offset))}},
                                                        info);
}

// The only resource type that MPI_Comm_split_type supports; "true": the process is restricted to one instance of it.
OPAL_MPI_FUNCTION(int, Get_hw_resource_info, (MPI_Info * hw_info)) {
  return Call{"MPI_Get_hw_resource_info", kAnyTime}.answer_info({{"mpi_shared_memory", "true"}}, hw_info);
}

OPAL_MPI_FUNCTION(int, Info_dup, (MPI_Info info, MPI_Info* newinfo)) {
  Call call{"MPI_Info_dup", kAnyTime};
  const info::Info* const object = find(call, info);
  return call.answer_info(call.failed() ? info::Info::Entries{} : object->entries(), newinfo);
}

OPAL_MPI_FUNCTION(int, Info_free, (MPI_Info * info)) {
  Call call{"MPI_Info_free", kAnyTime};
  info::Info* const object = find_writable(call, call.at(info, "info"));
  if (call.failed()) return call.error();
  object->retire();
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_set, (MPI_Info info, const char* key, const char* value)) {
  Call call{"MPI_Info_set", kAnyTime};
  info::Info* const object = find_writable(call, info);
  check_key(call, key);
  if (value == nullptr || std::strlen(value) > MPI_MAX_INFO_VAL - 1) {
    call.fail(MPI_ERR_INFO_VALUE, "argument value is null or longer than MPI_MAX_INFO_VAL - 1");
  }
  if (call.failed()) return call.error();
  object->set(key, value);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_delete, (MPI_Info info, const char* key)) {
  Call call{"MPI_Info_delete", kAnyTime};
  info::Info* const object = find_writable(call, info);
  check_key(call, key);
  if (call.failed()) return call.error();
  if (!object->erase(key)) return call.fail(MPI_ERR_INFO_NOKEY, "argument key is not in the info object");
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_get, (MPI_Info info, const char* key, int valuelen, char* value, int* flag)) {
  Call call{"MPI_Info_get", kAnyTime};
  call.pointer(value, "value");
  if (valuelen < 0) call.fail(MPI_ERR_ARG, "argument valuelen is negative");
  const std::string* const found = find_value(call, info, key, flag);
  if (found != nullptr) store(*found, value, static_cast<std::size_t>(valuelen));
  return call.error();
}

OPAL_MPI_FUNCTION(int, Info_get_string, (MPI_Info info, const char* key, int* buflen, char* value, int* flag)) {
  Call call{"MPI_Info_get_string", kAnyTime};
  call.pointer(buflen, "buflen");
  const std::string* const found = find_value(call, info, key, flag);
  if (found == nullptr) return call.error();
  if (*buflen > 0) store(*found, value, static_cast<std::size_t>(*buflen - 1));
  *buflen = static_cast<int>(found->size()) + 1;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_get_valuelen, (MPI_Info info, const char* key, int* valuelen, int* flag)) {
  Call call{"MPI_Info_get_valuelen", kAnyTime};
  call.pointer(valuelen, "valuelen");
  const std::string* const found = find_value(call, info, key, flag);
  if (found != nullptr) *valuelen = static_cast<int>(found->size());
  return call.error();
}

OPAL_MPI_FUNCTION(int, Info_get_nkeys, (MPI_Info info, int* nkeys)) {
  Call call{"MPI_Info_get_nkeys", kAnyTime};
  const info::Info* const object = find(call, info);
  return call.answer(nkeys, "nkeys", [&] { return static_cast<int>(object->entries().size()); });
}

OPAL_MPI_FUNCTION(int, Info_get_nthkey, (MPI_Info info, int n, char* key)) {
  Call call{"MPI_Info_get_nthkey", kAnyTime};
  const info::Info* const object = find(call, info);
  call.pointer(key, "key");
  if (call.failed()) return call.error();
  if (n < 0 || static_cast<std::size_t>(n) >= object->entries().size()) {
    return call.fail(MPI_ERR_INFO_KEY, "argument n is not the number of a key");
  }
  store(object->entries()[static_cast<std::size_t>(n)].first, key, MPI_MAX_INFO_KEY - 1);
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
