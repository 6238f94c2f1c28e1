// SPDX-License-Identifier: Apache-2.0
// Attributes of datatypes and their keys.
#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/attribute/type_attributes.hpp"

using mpi_shim::api::Call;

OPAL_MPI_FUNCTION(int, Type_create_keyval,
                  (MPI_Type_copy_attr_function * type_copy_attr_fn, MPI_Type_delete_attr_function* type_delete_attr_fn,
                   int* type_keyval, void* extra_state)) {
  Call call{"MPI_Type_create_keyval"};
  if (call.failed()) return call.error();
  call.pointer(type_keyval, "type_keyval");
  if (call.failed()) return call.error();
  *type_keyval = call.process().type_attributes().keys().create(type_copy_attr_fn, type_delete_attr_fn, extra_state);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Type_free_keyval, (int* type_keyval)) {
  Call call{"MPI_Type_free_keyval"};
  if (call.failed()) return call.error();
  call.pointer(type_keyval, "type_keyval");
  if (call.failed()) return call.error();
  if (!call.process().type_attributes().keys().free(*type_keyval)) {
    return call.fail(MPI_ERR_KEYVAL, "argument type_keyval is not a key of the program's own");
  }
  *type_keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Type_set_attr, (MPI_Datatype datatype, int type_keyval, void* attribute_val)) {
  Call call{"MPI_Type_set_attr"};
  if (call.failed()) return call.error();
  call.any_type(datatype);
  const auto key = call.process().type_attributes().keys().find(type_keyval);
  if (key == nullptr) call.fail(MPI_ERR_KEYVAL, "argument type_keyval is not a key that can be set");
  if (call.failed()) return call.error();
  return call.finish(call.process().type_attributes().of(datatype).set(datatype, key, attribute_val));
}

OPAL_MPI_FUNCTION(int, Type_get_attr, (MPI_Datatype datatype, int type_keyval, void* attribute_val, int* flag)) {
  Call call{"MPI_Type_get_attr"};
  if (call.failed()) return call.error();
  call.any_type(datatype);
  call.pointer(attribute_val, "attribute_val");
  call.pointer(flag, "flag");
  if (!call.failed() && !call.process().type_attributes().keys().was_created(type_keyval)) {
    call.fail(MPI_ERR_KEYVAL, "argument type_keyval is not a key");
  }
  if (call.failed()) return call.error();
  const auto* const attributes = call.process().type_attributes().find(datatype);
  void* value = nullptr;
  *flag = attributes != nullptr && attributes->get(type_keyval, value) ? 1 : 0;
  if (*flag != 0) *static_cast<void**>(attribute_val) = value;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Type_delete_attr, (MPI_Datatype datatype, int type_keyval)) {
  Call call{"MPI_Type_delete_attr"};
  if (call.failed()) return call.error();
  call.any_type(datatype);
  if (!call.failed() && !call.process().type_attributes().keys().was_created(type_keyval)) {
    call.fail(MPI_ERR_KEYVAL, "argument type_keyval is not a key");
  }
  if (call.failed()) return call.error();
  auto* const attributes = call.process().type_attributes().find(datatype);
  return attributes == nullptr ? MPI_SUCCESS : call.finish(attributes->remove(datatype, type_keyval));
}
