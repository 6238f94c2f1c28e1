/* SPDX-License-Identifier: Apache-2.0 */
/* Large messages, messages in parts, queued operations and their completions, and connections in callbacks. */
#include <stdlib.h>
#include <string.h>

#include "opal/capi/opal.h"
#include "tests/capi/check.h"
#include "tests/capi/side.h"

enum { LARGE = 3 << 20 };

/* What the handler of TAG_OTHER saw. */
struct seen {
  int messages;
  size_t size;
  const void* data;
  int intact;
};

static unsigned char pattern(size_t i) { return (unsigned char)(i * 7 + i / 1000); }

static void fill(unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes[i] = pattern(i);
}

/* A message is "head" and a pattern. */
static void on_large(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  struct seen* seen = user;
  const unsigned char* bytes = data;
  (void)from;
  ++seen->messages;
  seen->size = size;
  seen->data = data;
  seen->intact = size >= 4 && memcmp(bytes, "head", 4) == 0;
  for (size_t i = 4; i < size; ++i) seen->intact = seen->intact && bytes[i] == pattern(i - 4);
}

const char* capi_large(void) {
  struct side a, b;
  struct seen seen = {0};
  opal_completion_t end = {0};
  unsigned char* payload = malloc(LARGE);
  CHECK(payload != NULL);
  fill(payload, LARGE);
  CHECK(open_pair(&a, &b) == OPAL_OK);
  CHECK(opal_set_handler(b.context, TAG_OTHER, on_large, &seen) == OPAL_OK);
  CHECK(opal_send_any(a.to_other, TAG_OTHER, "head", 4, payload, 10, &end) == OPAL_DONE && end.finished);
  CHECK(pump(&a, &b, &seen.messages, 1) && seen.intact && seen.size == 14);
  CHECK(opal_send_any(a.to_other, TAG_OTHER, "head", 4, payload, LARGE, &end) == OPAL_QUEUED && !end.finished);
  CHECK(pump(&a, &b, &end.finished, 1));
  CHECK(end.status == OPAL_OK && seen.messages == 2 && seen.intact && seen.size == 4 + LARGE);

  opal_clear_handler(b.context, TAG_OTHER);
  opal_status_t status = opal_send_any(a.to_other, TAG_OTHER, "head", 4, payload, LARGE, &end);
  CHECK(ended(&a, &b, status, &end) == OPAL_ERR_NOT_SUPPORTED);
  CHECK(opal_send_any(a.to_other, TAG, "head", 4, payload, LARGE, &end) == OPAL_QUEUED);
  opal_context_close(a.context);
  CHECK(end.finished && end.status == OPAL_ERR_CANCELED);
  opal_context_close(b.context);
  free(payload);
  return NULL;
}

struct buffers {
  struct seen seen;
  uint64_t* memory;
  size_t room;
  int released;
};
static void on_buffered(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  on_large(&((struct buffers*)user)->seen, from, data, size);
}
static void* give_buffer(void* user, opal_endpoint_t* from, uint16_t tag, const void* header, size_t header_size,
                         size_t size) {
  struct buffers* buffers = user;
  const int wanted = from != NULL && tag == TAG_OTHER && header_size == 4 && memcmp(header, "head", 4) == 0;
  return wanted && size <= buffers->room ? buffers->memory : NULL;
}
static void take_buffer(void* user, void* buffer) {
  struct buffers* buffers = user;
  buffers->released += buffer == buffers->memory;
}

const char* capi_buffers(void) {
  struct side a, b;
  struct buffers buffers = {{0}, malloc(LARGE + 8), LARGE + 8, 0};
  opal_completion_t end = {0};
  unsigned char* payload = malloc(LARGE);
  CHECK(payload != NULL && buffers.memory != NULL);
  fill(payload, LARGE);
  CHECK(open_pair(&a, &b) == OPAL_OK);
  CHECK(opal_set_handler_with_buffers(b.context, TAG_OTHER, on_buffered, give_buffer, take_buffer, &buffers) ==
        OPAL_OK);
  opal_status_t status = opal_send_any(a.to_other, TAG_OTHER, "head", 4, payload, LARGE, &end);
  CHECK(ended(&a, &b, status, &end) == OPAL_OK);
  CHECK(buffers.seen.intact && buffers.seen.data == buffers.memory && buffers.released == 0);
  buffers.room = 100;
  status = opal_send_any(a.to_other, TAG_OTHER, "head", 4, payload, LARGE, &end);
  CHECK(ended(&a, &b, status, &end) == OPAL_ERR_LIMIT_REACHED);
  CHECK(buffers.seen.messages == 1);
  close_pair(&a, &b);
  free(payload);
  free(buffers.memory);
  return NULL;
}

/* A pair, and memory of b that a may use. */
struct target {
  struct side a, b;
  uint64_t memory[64];
  opal_remote_key_t key;
};

static opal_status_t open_target(struct target* target) {
  const void* bytes;
  size_t size;
  opal_region_t* region;
  memset(target, 0, sizeof *target);
  opal_status_t status = open_pair(&target->a, &target->b);
  if (status != OPAL_OK) return status;
  status = opal_register(target->b.context, target->memory, sizeof target->memory, OPAL_REMOTE_ALL, &region);
  if (status != OPAL_OK) return status;
  opal_region_key(region, &bytes, &size);
  return opal_unpack_key(target->a.to_other, bytes, size, &target->key);
}
static uint64_t place(const struct target* target, size_t index) { return (uint64_t)(uintptr_t)&target->memory[index]; }

const char* capi_counter(void) {
  enum { OPERATIONS = 2000 };
  static opal_completion_t ends[OPERATIONS + 1];
  struct target target;
  opal_counter_t* counter;
  uint64_t word = 9, back = 0;
  CHECK(open_target(&target) == OPAL_OK);
  CHECK(opal_counter_create(target.a.context, &counter) == OPAL_OK);
  for (int i = 0; i <= OPERATIONS; ++i) opal_counter_attach(counter, &ends[i]);
  for (int i = 0; i < OPERATIONS - 2; ++i) {
    const opal_status_t status = opal_atomic_or_queue(target.a.to_other, OPAL_ADD, OPAL_U64, place(&target, 3),
                                                      &target.key, 1, 0, NULL, &ends[i]);
    CHECK(opal_counter_count(counter, status) == status && (status == OPAL_DONE || status == OPAL_QUEUED));
  }
  opal_counter_count(
      counter, opal_put_or_queue(target.a.to_other, &word, place(&target, 4), &target.key, 8, &ends[OPERATIONS - 2]));
  opal_counter_count(
      counter, opal_get_or_queue(target.a.to_other, &back, place(&target, 5), &target.key, 8, &ends[OPERATIONS - 1]));
  for (int i = 0; i < 100000 && opal_counter_ended(counter) < OPERATIONS; ++i) {
    opal_context_progress(target.b.context);
    (void)opal_counter_wait(counter, OPERATIONS, 0);
  }
  CHECK(opal_counter_wait(counter, OPERATIONS, 0) == OPAL_OK && opal_counter_failures(counter) == 0);
  CHECK(target.memory[3] == OPERATIONS - 2 && target.memory[4] == 9);
  CHECK(opal_counter_wait(counter, OPERATIONS + 1, 1) == OPAL_ERR_TIMED_OUT);

  opal_counter_count(
      counter, opal_put_or_queue(target.a.to_other, &word, place(&target, 64), &target.key, 8, &ends[OPERATIONS]));
  CHECK(opal_counter_wait(counter, OPERATIONS + 1, 20000) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(opal_counter_failures(counter) == 1);
  opal_counter_destroy(counter);
  close_pair(&target.a, &target.b);
  return NULL;
}

const char* capi_entries(void) {
  struct target target;
  opal_queue_t* queue;
  opal_queue_entry_t entries[4];
  int requests[3], seen = 0;
  uint64_t word = 1;
  CHECK(open_target(&target) == OPAL_OK);
  CHECK(opal_queue_create(target.a.context, 3, &queue) == OPAL_OK);
  for (int i = 0; i < 3; ++i) {
    opal_completion_t* end = opal_queue_take(queue, &requests[i]);
    CHECK(end != NULL);
    /* The second one is refused. */
    const opal_status_t status =
        opal_put_or_queue(target.a.to_other, &word, place(&target, i == 1 ? 64 : 6), &target.key, 8, end);
    CHECK(opal_queue_settle(queue, end, status) == OPAL_QUEUED);
  }
  CHECK(opal_queue_take(queue, NULL) == NULL);
  for (int i = 0; i < 100000 && seen < 3; ++i) {
    opal_context_progress(target.b.context);
    const size_t count = opal_queue_wait(queue, entries, 4, 1);
    for (size_t k = 0; k < count; ++k) {
      CHECK((entries[k].status == OPAL_OK) == (entries[k].user != &requests[1]));
      ++seen;
    }
  }
  CHECK(seen == 3 && target.memory[6] == 1);
  CHECK(opal_queue_poll(queue, entries, 4) == 0);
  opal_completion_t* end = opal_queue_take(queue, NULL);
  CHECK(opal_queue_settle(queue, end, OPAL_AGAIN) == OPAL_AGAIN && opal_queue_poll(queue, entries, 4) == 0);
  opal_queue_destroy(queue);
  close_pair(&target.a, &target.b);
  return NULL;
}

const char* capi_notify(void) {
  struct target target;
  opal_completion_t end = {0};
  uint64_t word = 77;
  CHECK(open_target(&target) == OPAL_OK);
  const opal_status_t status =
      opal_put_notify(target.a.to_other, &word, place(&target, 8), &target.key, 8, TAG, "done", 4, &end);
  CHECK(ended(&target.a, &target.b, status, &end) == OPAL_OK);
  CHECK(pump(&target.a, &target.b, &target.b.messages, 1));
  CHECK(target.memory[8] == 77 && target.b.last_size == 4 && memcmp(target.b.last, "done", 4) == 0);
  close_pair(&target.a, &target.b);
  return NULL;
}

const char* capi_iov(void) {
  struct side a, b;
  const opal_iov_t parts[4] = {{"he", 2}, {NULL, 0}, {"adt", 3}, {"ail", 3}};
  opal_status_t status;
  CHECK(open_pair(&a, &b) == OPAL_OK);
  while ((status = opal_send_iov(a.to_other, TAG, parts, 4)) == OPAL_AGAIN) opal_context_progress(a.context);
  CHECK(status == OPAL_DONE);
  CHECK(pump(&a, &b, &b.messages, 1));
  opal_batch_begin(a.context);
  for (int i = 0; i < 10; ++i) CHECK(opal_send(a.to_other, TAG, NULL, 0, "short", 5) == OPAL_DONE);
  CHECK(opal_send_iov(a.to_other, TAG, parts, 4) == OPAL_DONE);
  opal_batch_end(a.context);
  opal_batch_begin(NULL);
  opal_batch_end(NULL);
  CHECK(pump(&a, &b, &b.messages, 12));
  CHECK(b.last_size == 8 && memcmp(b.last, "headtail", 8) == 0);
  close_pair(&a, &b);
  return NULL;
}

static void drop_sender(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  (void)data, (void)size;
  ++*(int*)user;
  opal_disconnect(from);
}

const char* capi_async(void) {
  struct side a, b;
  const void* address;
  size_t size;
  int dropped = 0;
  CHECK(open_side(&a) == OPAL_OK && open_side(&b) == OPAL_OK);
  CHECK(opal_set_handler(b.context, TAG_OTHER, drop_sender, &dropped) == OPAL_OK);
  opal_context_address(b.context, &address, &size);
  CHECK(opal_connect_async(a.context, address, size, &a.to_other) == OPAL_OK);
  CHECK(!opal_endpoint_connected(a.to_other));
  CHECK(opal_send(a.to_other, TAG, "x", 1, NULL, 0) == OPAL_AGAIN);
  CHECK(opal_send_or_queue(a.to_other, TAG, "x", 1, NULL, 0) == OPAL_DONE);
  CHECK(pump(&a, &b, &b.messages, 1));
  CHECK(opal_endpoint_connected(a.to_other) && a.connected == 1);
  CHECK(opal_send_or_queue(a.to_other, TAG_OTHER, NULL, 0, NULL, 0) == OPAL_DONE);
  CHECK(pump(&a, &b, &a.failed, 1));
  CHECK(dropped == 1 && b.failed == 0 && !opal_endpoint_connected(a.to_other));
  close_pair(&a, &b);
  return NULL;
}

const char* capi_settings(void) {
  opal_context_options_t options = OPAL_INIT(opal_context_options_t);
  opal_setting_t settings[2] = {{"am_transports", "self"}, {"am_large_limit", "64K"}};
  opal_context_t* context;
  opal_endpoint_t* peer;
  const void* address;
  size_t size;
  char text[1000];
  options.settings = settings;
  options.setting_count = 2;
  options.secret = "a secret of the test program";
  options.secret_size = 28;
  CHECK(opal_context_open(&options, &context) == OPAL_OK);
  opal_context_address(context, &address, &size);
  CHECK(opal_connect(context, address, size, &peer) == OPAL_OK);
  opal_endpoint_explain(peer, text, sizeof text);
  CHECK(strstr(text, "sm: not opened: not allowed by am_transports") != NULL);
  opal_context_close(context);

  settings[1].value = "much";
  CHECK(opal_context_open(&options, &context) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(strstr(opal_last_error(), "am_large_limit") != NULL);
  settings[1].value = NULL;
  CHECK(opal_context_open(&options, &context) == OPAL_ERR_INVALID_ARGUMENT);
  options.setting_count = 1;
  options.secret_size = 3;
  CHECK(opal_context_open(&options, &context) == OPAL_ERR_INVALID_ARGUMENT);
  options.secret = NULL;
  CHECK(opal_context_open(&options, &context) == OPAL_ERR_INVALID_ARGUMENT);
  return NULL;
}
