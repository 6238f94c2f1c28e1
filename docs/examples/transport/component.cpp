// SPDX-License-Identifier: Apache-2.0
// The record by which libopal knows the transport when it loads this shared object from am_component_path:
//   OPAL_AM_COMPONENT_PATH=/the/directory opal-info
#include "opal/btl/component_record.hpp"
#include "unix_transport.hpp"

const opal::btl::ComponentRecord opal_component{.component = &example::kUnixComponent};
