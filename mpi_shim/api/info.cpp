// SPDX-License-Identifier: Apache-2.0
// Info objects.  They may be used before MPI_Init and after MPI_Finalize.
#include "mpi_shim/info/info.hpp"

#include <algorithm>
#include <cstring>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/handle/table.hpp"
#include "mpi_shim/info/environment.hpp"
#include "mpi_shim/process/raise.hpp"

namespace {

using mpi_shim::info::Info;

/// The checks that all functions here share; an error is raised once.
class Check {
 public:
  explicit Check(const char* function) noexcept : function_(function) {}

  [[nodiscard]] bool failed() const noexcept { return error_ != MPI_SUCCESS; }
  [[nodiscard]] int error() const noexcept { return error_; }
  int fail(int error_class, const char* message) {
    if (error_ == MPI_SUCCESS) error_ = mpi_shim::raise({}, error_class, function_, message);
    return error_;
  }

  Info* info(MPI_Info handle) {
    auto* object = mpi_shim::handle::find<Info>(handle);
    if (object == nullptr) fail(MPI_ERR_INFO, "argument info is not a valid info object");
    return object;
  }
  Info* writable(MPI_Info handle) {
    Info* object = info(handle);
    if (object != nullptr && object->is_predefined()) fail(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed");
    return object;
  }
  void key(const char* key) {
    if (key == nullptr || key[0] == '\0' || std::strlen(key) > MPI_MAX_INFO_KEY - 1) {
      fail(MPI_ERR_INFO_KEY, "argument key is null, empty or longer than MPI_MAX_INFO_KEY - 1");
    }
  }
  void pointer(const void* pointer) {
    if (pointer == nullptr) fail(MPI_ERR_ARG, "an argument for the result is a null pointer");
  }

 private:
  const char* function_;
  int error_ = MPI_SUCCESS;
};

int hand_out(Check& check, Info::Entries entries, MPI_Info* handle) {
  auto made = mpi_shim::handle::create<Info>(std::move(entries));
  if (!made) return check.fail(MPI_ERR_NO_MEM, "no memory for the info object");
  *handle = mpi_shim::handle::to_handle<MPI_Info>(*made->detach());  // the program's reference
  return MPI_SUCCESS;
}

/// At most `room` characters of `value`, terminated.
void store(const std::string& value, char* target, std::size_t room) {
  const std::size_t length = std::min(value.size(), room);
  *std::copy_n(value.begin(), length, target) = '\0';
}

}  // namespace

OPAL_MPI_FUNCTION(int, Info_create, (MPI_Info * info)) {
  Check check{"MPI_Info_create"};
  check.pointer(info);
  return check.failed() ? check.error() : hand_out(check, {}, info);
}

OPAL_MPI_FUNCTION(int, Info_create_env, (int argc, char* argv[], MPI_Info* info)) {
  Check check{"MPI_Info_create_env"};
  check.pointer(info);
  if (check.failed()) return check.error();
  const std::span<char* const> arguments{argv, argv != nullptr && argc > 0 ? static_cast<std::size_t>(argc) : 0};
  return hand_out(check, mpi_shim::info::describe_environment(arguments, 0, MPI_THREAD_SINGLE), info);
}

// What the ABI leaves to the implementation or to the platform, as its type sizes.
OPAL_MPI_FUNCTION(int, Abi_get_info, (MPI_Info * info)) {
  Check check{"MPI_Abi_get_info"};
  check.pointer(info);
  if (check.failed()) return check.error();
  return hand_out(check,
                  {{"mpi_aint_size", std::to_string(sizeof(MPI_Aint))},
                   {"mpi_count_size", std::to_string(sizeof(MPI_Count))},
                   {"mpi_offset_size", std::to_string(sizeof(MPI_Offset))}},
                  info);
}

// The one kind of hardware resource that MPI_Comm_split_type divides by here; no process is restricted to one.
OPAL_MPI_FUNCTION(int, Get_hw_resource_info, (MPI_Info * hw_info)) {
  Check check{"MPI_Get_hw_resource_info"};
  check.pointer(hw_info);
  return check.failed() ? check.error() : hand_out(check, {{"mpi_shared_memory", "true"}}, hw_info);
}

OPAL_MPI_FUNCTION(int, Info_dup, (MPI_Info info, MPI_Info* newinfo)) {
  Check check{"MPI_Info_dup"};
  const Info* const object = check.info(info);
  check.pointer(newinfo);
  return check.failed() ? check.error() : hand_out(check, object->entries(), newinfo);
}

OPAL_MPI_FUNCTION(int, Info_free, (MPI_Info * info)) {
  Check check{"MPI_Info_free"};
  check.pointer(info);
  if (check.failed()) return check.error();
  Info* const object = check.writable(*info);
  if (check.failed()) return check.error();
  object->retire();
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_set, (MPI_Info info, const char* key, const char* value)) {
  Check check{"MPI_Info_set"};
  Info* const object = check.writable(info);
  check.key(key);
  if (value == nullptr || std::strlen(value) > MPI_MAX_INFO_VAL - 1) {
    check.fail(MPI_ERR_INFO_VALUE, "argument value is null or longer than MPI_MAX_INFO_VAL - 1");
  }
  if (check.failed()) return check.error();
  object->set(key, value);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_delete, (MPI_Info info, const char* key)) {
  Check check{"MPI_Info_delete"};
  Info* const object = check.writable(info);
  check.key(key);
  if (check.failed()) return check.error();
  if (!object->erase(key)) return check.fail(MPI_ERR_INFO_NOKEY, "argument key is not in the info object");
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_get, (MPI_Info info, const char* key, int valuelen, char* value, int* flag)) {
  Check check{"MPI_Info_get"};
  const Info* const object = check.info(info);
  check.key(key);
  check.pointer(value);
  check.pointer(flag);
  if (valuelen < 0) check.fail(MPI_ERR_ARG, "argument valuelen is negative");
  if (check.failed()) return check.error();
  const std::string* const found = object->find(key);
  *flag = found != nullptr;
  if (found != nullptr) store(*found, value, static_cast<std::size_t>(valuelen));
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_get_string, (MPI_Info info, const char* key, int* buflen, char* value, int* flag)) {
  Check check{"MPI_Info_get_string"};
  const Info* const object = check.info(info);
  check.key(key);
  check.pointer(buflen);
  check.pointer(flag);
  if (check.failed()) return check.error();
  const std::string* const found = object->find(key);
  *flag = found != nullptr;
  if (found == nullptr) return MPI_SUCCESS;
  if (*buflen > 0) store(*found, value, static_cast<std::size_t>(*buflen - 1));
  *buflen = static_cast<int>(found->size()) + 1;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_get_valuelen, (MPI_Info info, const char* key, int* valuelen, int* flag)) {
  Check check{"MPI_Info_get_valuelen"};
  const Info* const object = check.info(info);
  check.key(key);
  check.pointer(valuelen);
  check.pointer(flag);
  if (check.failed()) return check.error();
  const std::string* const found = object->find(key);
  *flag = found != nullptr;
  if (found != nullptr) *valuelen = static_cast<int>(found->size());
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_get_nkeys, (MPI_Info info, int* nkeys)) {
  Check check{"MPI_Info_get_nkeys"};
  const Info* const object = check.info(info);
  check.pointer(nkeys);
  if (check.failed()) return check.error();
  *nkeys = static_cast<int>(object->entries().size());
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Info_get_nthkey, (MPI_Info info, int n, char* key)) {
  Check check{"MPI_Info_get_nthkey"};
  const Info* const object = check.info(info);
  check.pointer(key);
  if (check.failed()) return check.error();
  if (n < 0 || static_cast<std::size_t>(n) >= object->entries().size()) {
    return check.fail(MPI_ERR_INFO_KEY, "argument n is not the number of a key");
  }
  store(object->entries()[static_cast<std::size_t>(n)].first, key, MPI_MAX_INFO_KEY - 1);
  return MPI_SUCCESS;
}
