/* SPDX-License-Identifier: Apache-2.0 */
/* Talks to itself: a message, and a put into the middle of its own registered memory. */
#include <opal/capi/opal.h>
#include <stdio.h>

static int messages;
static void on_message(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  (void)user, (void)from, (void)data;
  messages += size == 8;
}
static int arrived(void* user) { return messages == 1 && ((opal_completion_t*)user)->finished; }

static int fail(const char* what) {
  fprintf(stderr, "c_user: %s: %s\n", what, opal_last_error());
  return 1;
}

int main(void) {
  static uint64_t memory[1000];
  const uint64_t value = 42;
  const void* bytes;
  size_t size;
  opal_context_t* context;
  opal_endpoint_t* self;
  opal_region_t* region;
  opal_remote_key_t key;
  opal_completion_t completion = {0};
  opal_context_options_t options = OPAL_INIT(opal_context_options_t);

  if (opal_context_open(&options, &context) != OPAL_OK) return fail("open");
  if (opal_set_handler(context, OPAL_TAG_USER_FIRST, on_message, NULL) != OPAL_OK) return fail("handler");
  opal_context_address(context, &bytes, &size);
  if (opal_connect(context, bytes, size, &self) != OPAL_OK) return fail("connect");
  if (opal_register(context, memory, sizeof memory, OPAL_REMOTE_ALL, &region) != OPAL_OK) return fail("register");
  opal_region_key(region, &bytes, &size);
  if (opal_unpack_key(self, bytes, size, &key) != OPAL_OK) return fail("unpack");
  if (opal_put(self, &value, (uint64_t)(uintptr_t)&memory[500], &key, sizeof value, &completion) < 0)
    return fail("put");
  if (opal_send_or_queue(self, OPAL_TAG_USER_FIRST, &value, sizeof value, NULL, 0) < 0) return fail("send");
  if (!opal_wait_until(context, arrived, &completion, 20000)) return fail("wait");
  const int right = completion.status == OPAL_OK && memory[500] == 42 && memory[499] == 0 && memory[501] == 0;
  opal_context_close(context);
  puts(right ? "c_user: right" : "c_user: WRONG");
  return !right;
}
