/* SPDX-License-Identifier: Apache-2.0 */
/* opal.h under pedantic warnings, in C11 and, as header.cpp, in C++11 and C++20: building it is the test. */
#include "opal/capi/opal.h"

opal_context_options_t opal_header_options(void);
opal_context_options_t opal_header_options(void) {
  opal_context_options_t options = OPAL_INIT(opal_context_options_t);
  return options;
}
