// SPDX-License-Identifier: Apache-2.0
// A library that calls upwards, to show that the link test would notice.
extern int PMIx_Get(void);
__attribute__((visibility("default"))) int planted(void) { return PMIx_Get(); }
