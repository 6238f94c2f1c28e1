/* SPDX-License-Identifier: Apache-2.0 */
/* tests/capi/side.h -- two contexts of one process that talk to each other, and what their callbacks saw. */
#ifndef OPAL_TESTS_CAPI_SIDE_H
#define OPAL_TESTS_CAPI_SIDE_H

#include <string.h>

#include "opal/capi/opal.h"

enum { TAG = OPAL_TAG_USER_FIRST, TAG_OTHER = OPAL_TAG_USER_LAST };

struct side {
  opal_context_t* context;
  opal_endpoint_t* to_other;
  int messages, connected, failed;
  opal_endpoint_t* from;
  unsigned char last[64];
  size_t last_size;
};

static inline void on_message(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  struct side* self = user;
  ++self->messages;
  self->from = from;
  self->last_size = size;
  if (size <= sizeof self->last && size != 0) memcpy(self->last, data, size);
}
static inline void on_connected(void* user, opal_endpoint_t* peer, opal_status_t why) {
  struct side* self = user;
  self->connected += peer != NULL && why == OPAL_OK;
}
static inline void on_failed(void* user, opal_endpoint_t* peer, opal_status_t why) {
  struct side* self = user;
  self->failed += peer != NULL && why < 0;
}

static inline opal_status_t open_side(struct side* side) {
  opal_context_options_t options = OPAL_INIT(opal_context_options_t);
  memset(side, 0, sizeof *side);
  options.on_peer_connected = on_connected;
  options.on_peer_failed = on_failed;
  options.user = side;
  const opal_status_t status = opal_context_open(&options, &side->context);
  return status != OPAL_OK ? status : opal_set_handler(side->context, TAG, on_message, side);
}

static inline opal_status_t open_pair(struct side* a, struct side* b) {
  const void* address;
  size_t size;
  opal_status_t status = open_side(a);
  if (status == OPAL_OK) status = open_side(b);
  if (status != OPAL_OK) return status;
  opal_context_address(b->context, &address, &size);
  return opal_connect(a->context, address, size, &a->to_other);
}

static inline void close_pair(struct side* a, struct side* b) {
  opal_context_close(a->context);
  opal_context_close(b->context);
}

/* Progresses both until *value reaches `wanted`; 0 when that takes too long. */
static inline int pump(struct side* a, struct side* b, const int* value, int wanted) {
  for (long i = 0; i < 20000000 && *value < wanted; ++i) {
    opal_context_progress(a->context);
    opal_context_progress(b->context);
  }
  return *value >= wanted;
}

/* The end of an operation that answered `status`. */
static inline opal_status_t ended(struct side* a, struct side* b, opal_status_t status, opal_completion_t* completion) {
  if (status != OPAL_QUEUED) return status;
  return pump(a, b, &completion->finished, 1) ? completion->status : OPAL_ERR_TIMED_OUT;
}

#endif
