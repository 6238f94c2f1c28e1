/* SPDX-License-Identifier: Apache-2.0 */
/* What a program can get wrong: each is OPAL_ERR_INVALID_ARGUMENT with a reason, and nothing happened. */
#include <string.h>

#include "opal/capi/opal.h"
#include "tests/capi/check.h"

static void ignore_message(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  (void)user, (void)from, (void)data, (void)size;
}

struct self {
  opal_context_t* context;
  opal_endpoint_t* peer;
  opal_region_t* region;
  opal_remote_key_t key;
};

static opal_status_t open_self(struct self* self, void* memory, uint64_t size) {
  const void* bytes;
  size_t length;
  opal_status_t status = opal_context_open(NULL, &self->context);
  if (status != OPAL_OK) return status;
  opal_context_address(self->context, &bytes, &length);
  status = opal_connect(self->context, bytes, length, &self->peer);
  if (status != OPAL_OK) return status;
  status = opal_register(self->context, memory, size, OPAL_REMOTE_ALL, &self->region);
  if (status != OPAL_OK) return status;
  opal_region_key(self->region, &bytes, &length);
  return opal_unpack_key(self->peer, bytes, length, &self->key);
}

/* The call is refused, and the reason names `word`. */
#define REFUSED(call, word)                   \
  CHECK((call) == OPAL_ERR_INVALID_ARGUMENT); \
  CHECK(strstr(opal_last_error(), word) != NULL)
/* The same of a post with the completion `end`, which has ended with that error. */
#define POST_REFUSED(call, word) \
  end.status = OPAL_OK;          \
  end.finished = 0;              \
  REFUSED(call, word);           \
  CHECK(end.status == OPAL_ERR_INVALID_ARGUMENT && end.finished == 1)

const char* capi_missing(void) {
  static uint64_t memory[8];
  struct self self;
  opal_completion_t end = {0};
  opal_endpoint_t* peer;
  opal_region_t* region;
  opal_remote_key_t key;
  void* allocated;
  const void* bytes;
  size_t size;
  const uint64_t where = (uint64_t)(uintptr_t)memory;
  CHECK(open_self(&self, memory, sizeof memory) == OPAL_OK);
  opal_context_address(self.context, &bytes, &size);

  REFUSED(opal_context_open(NULL, NULL), "opal_context_open");
  REFUSED(opal_connect(NULL, bytes, size, &peer), "opal_connect");
  REFUSED(opal_connect(self.context, NULL, size, &peer), "opal_connect");
  REFUSED(opal_connect(self.context, bytes, size, NULL), "opal_connect");
  REFUSED(opal_listen(NULL, "127.0.0.1:0", NULL, 0), "opal_listen");
  REFUSED(opal_listen(self.context, NULL, NULL, 0), "opal_listen");
  REFUSED(opal_connect_to(NULL, "127.0.0.1:1", 0, &peer), "opal_connect_to");
  REFUSED(opal_connect_to(self.context, NULL, 0, &peer), "opal_connect_to");
  REFUSED(opal_connect_to(self.context, "127.0.0.1:1", 0, NULL), "opal_connect_to");
  REFUSED(opal_set_handler(NULL, OPAL_TAG_USER_FIRST, ignore_message, NULL), "opal_set_handler");
  REFUSED(opal_set_handler(self.context, OPAL_TAG_USER_FIRST, NULL, NULL), "opal_set_handler");
  REFUSED(opal_send(NULL, OPAL_TAG_USER_FIRST, NULL, 0, NULL, 0), "opal_send");
  REFUSED(opal_send(self.peer, OPAL_TAG_USER_FIRST, NULL, 1, NULL, 0), "opal_send");
  REFUSED(opal_send_or_queue(self.peer, OPAL_TAG_USER_FIRST, NULL, 0, NULL, 1), "opal_send");
  REFUSED(opal_register(NULL, memory, 8, OPAL_REMOTE_ALL, &region), "opal_register");
  REFUSED(opal_register(self.context, NULL, 8, OPAL_REMOTE_ALL, &region), "opal_register");
  REFUSED(opal_register(self.context, memory, 8, OPAL_REMOTE_ALL, NULL), "opal_register");
  REFUSED(opal_register_address_space(NULL, 1, &region), "opal_register_address_space");
  REFUSED(opal_register_address_space(self.context, 8, &region), "opal_register_address_space");
  REFUSED(opal_register_address_space(self.context, 1, NULL), "opal_register_address_space");
  REFUSED(opal_exclude(NULL, &region, 8, 1), "opal_exclude");
  REFUSED(opal_map_unregistered(NULL, 8, &allocated), "opal_map_unregistered");
  REFUSED(opal_unmap_unregistered(NULL, &region), "opal_unmap_unregistered");
  REFUSED(opal_mem_alloc(NULL, 8, 0, NULL, &allocated), "opal_mem_alloc");
  REFUSED(opal_mem_alloc(self.context, 0, 0, NULL, &allocated), "opal_mem_alloc");
  REFUSED(opal_mem_alloc(self.context, 8, 0, NULL, NULL), "opal_mem_alloc");
  REFUSED(opal_mem_free(NULL, memory), "opal_mem_free");
  REFUSED(opal_unpack_key(NULL, bytes, size, &key), "opal_unpack_key");
  REFUSED(opal_unpack_key(self.peer, NULL, size, &key), "opal_unpack_key");
  REFUSED(opal_unpack_key(self.peer, bytes, size, NULL), "opal_unpack_key");
  POST_REFUSED(opal_put(NULL, memory, where, &self.key, 8, &end), "opal_put");
  POST_REFUSED(opal_put(self.peer, NULL, where, &self.key, 8, &end), "opal_put");
  POST_REFUSED(opal_put(self.peer, memory, where, NULL, 8, &end), "opal_put");
  REFUSED(opal_put(self.peer, memory, where, &self.key, 8, NULL), "completion");
  POST_REFUSED(opal_get(NULL, memory, where, &self.key, 8, &end), "opal_get");
  POST_REFUSED(opal_get(self.peer, NULL, where, &self.key, 8, &end), "opal_get");
  POST_REFUSED(opal_get(self.peer, memory, where, NULL, 8, &end), "opal_get");
  POST_REFUSED(opal_atomic(NULL, OPAL_ADD, OPAL_U64, where, &self.key, 1, 0, NULL, &end), "opal_atomic");
  POST_REFUSED(opal_atomic(self.peer, OPAL_ADD, OPAL_U64, where, NULL, 1, 0, NULL, &end), "opal_atomic");
  POST_REFUSED(opal_put_or_queue(NULL, memory, where, &self.key, 8, &end), "opal_put");
  POST_REFUSED(opal_get_or_queue(self.peer, memory, where, NULL, 8, &end), "opal_get");
  POST_REFUSED(opal_atomic_or_queue(NULL, OPAL_ADD, OPAL_U64, where, &self.key, 1, 0, NULL, &end), "opal_atomic");
  POST_REFUSED(opal_put_notify(self.peer, memory, where, &self.key, 8, 1, NULL, 0, &end), "opal_put_notify");
  POST_REFUSED(opal_put_notify(self.peer, memory, where, &self.key, 8, OPAL_TAG_USER_FIRST, NULL, 1, &end), "header");
  POST_REFUSED(opal_send_any(self.peer, 1, NULL, 0, memory, 8, &end), "opal_send_any");
  POST_REFUSED(opal_send_any(self.peer, OPAL_TAG_USER_FIRST, NULL, 0, NULL, 8, &end), "opal_send_any");
  REFUSED(opal_send_any(self.peer, OPAL_TAG_USER_FIRST, NULL, 0, memory, 8, NULL), "completion");
  REFUSED(opal_send_iov(self.peer, OPAL_TAG_USER_FIRST, NULL, 1), "opal_send_iov");
  REFUSED(opal_send_iov(self.peer, OPAL_TAG_USER_FIRST, &(opal_iov_t){NULL, 1}, 1), "opal_send_iov");
  REFUSED(opal_connect_async(self.context, NULL, size, &peer), "opal_connect_async");
  REFUSED(opal_set_handler_with_buffers(self.context, OPAL_TAG_USER_FIRST, ignore_message, NULL, NULL, NULL),
          "opal_set_handler_with_buffers");
  opal_counter_t* counter;
  opal_queue_t* queue;
  REFUSED(opal_counter_create(NULL, &counter), "opal_counter_create");
  REFUSED(opal_counter_wait(NULL, 1, 0), "opal_counter_wait");
  REFUSED(opal_queue_create(self.context, 0, &queue), "opal_queue_create");
  REFUSED(opal_queue_settle(NULL, &end, OPAL_DONE), "opal_queue_settle");
  POST_REFUSED(opal_flush(NULL, &end), "opal_flush");
  REFUSED(opal_flush(self.peer, NULL), "completion");
  POST_REFUSED(opal_flush_all(NULL, &end), "opal_flush_all");

  /* Functions without a status do nothing. */
  opal_context_address(NULL, &bytes, &size);
  opal_context_address(self.context, NULL, NULL);
  opal_region_key(NULL, &bytes, &size);
  opal_clear_handler(NULL, OPAL_TAG_USER_FIRST);
  opal_counter_destroy(NULL);
  opal_queue_destroy(NULL);
  CHECK(opal_queue_take(NULL, NULL) == NULL && opal_queue_poll(NULL, NULL, 1) == 0);
  CHECK(opal_counter_ended(NULL) == 0 && opal_counter_failures(NULL) == 0 && opal_endpoint_connected(NULL) == 0);
  opal_endpoint_set_user(NULL, memory);
  CHECK(opal_endpoint_user(NULL) == NULL);
  CHECK(opal_endpoint_max_send(NULL) == 0);
  CHECK(opal_endpoint_explain(NULL, NULL, 0) == 0);
  CHECK(opal_context_progress(NULL) == 0 && opal_wait(NULL, 0) == 0 && opal_fd(NULL) == -1 && opal_arm(NULL) == 0);
  CHECK(opal_wait_until(NULL, NULL, NULL, 0) == 0 && opal_wait_until(self.context, NULL, NULL, 0) == 0);
  opal_context_close(self.context);
  return NULL;
}

const char* capi_wrong(void) {
  static uint64_t memory[8];
  static char large[1 << 20];
  struct self self;
  opal_completion_t end = {0};
  opal_endpoint_t* peer;
  opal_region_t* region;
  opal_remote_key_t key;
  const uint64_t where = (uint64_t)(uintptr_t)memory;
  CHECK(open_self(&self, memory, sizeof memory) == OPAL_OK);

  REFUSED(opal_set_handler(self.context, 1, ignore_message, NULL), "tag");
  REFUSED(opal_set_handler(self.context, 0xffff, ignore_message, NULL), "tag");
  REFUSED(opal_send(self.peer, 1, NULL, 0, NULL, 0), "tag");
  REFUSED(opal_send(self.peer, 0, NULL, 0, NULL, 0), "tag");
  REFUSED(opal_send(self.peer, 0xffff, NULL, 0, NULL, 0), "tag");
  REFUSED(opal_send_or_queue(self.peer, 0x7fff, NULL, 0, NULL, 0), "tag");
  REFUSED(opal_send(self.peer, OPAL_TAG_USER_FIRST, large, SIZE_MAX, large, 10), "bytes");
  REFUSED(opal_send_or_queue(self.peer, OPAL_TAG_USER_FIRST, large, 10, large, SIZE_MAX), "bytes");
  REFUSED(opal_listen(self.context, "127.0.0.1:99999", NULL, 0), "port");
  REFUSED(opal_connect_to(self.context, "127.0.0.1:70000", 0, &peer), "127.0.0.1:70000");
  CHECK(opal_send(self.peer, OPAL_TAG_USER_FIRST, NULL, 0, large, sizeof large) < 0); /* more than max_send */
  CHECK(strlen(opal_last_error()) != 0);
  REFUSED(opal_register(self.context, memory, 8, 8, &region), "rights");
  CHECK(opal_register(self.context, memory, UINT64_MAX, OPAL_REMOTE_ALL, &region) == OPAL_ERR_INVALID_ARGUMENT);
  POST_REFUSED(opal_atomic(self.peer, 8, OPAL_U64, where, &self.key, 1, 0, NULL, &end), "OPAL_COMPARE_SWAP");
  POST_REFUSED(opal_atomic(self.peer, OPAL_ADD, -1, where, &self.key, 1, 0, NULL, &end), "OPAL_I32");
  CHECK(opal_unpack_key(self.peer, "garbage", 7, &key) == OPAL_ERR_PROTOCOL);
  CHECK(opal_connect(self.context, "garbage", 7, &peer) == OPAL_ERR_PROTOCOL);
  CHECK(opal_connect(self.context, "garbage", 0, &peer) == OPAL_ERR_PROTOCOL);
  REFUSED(opal_connect_to(self.context, "nowhere", 0, &peer), "host:port");
  REFUSED(opal_listen(self.context, "nowhere", NULL, 0), "host:port");
  memset(&key, 0, sizeof key); /* a key that was never unpacked */
  CHECK(opal_put(self.peer, memory, where, &key, 8, &end) < 0 && end.status < 0);
  opal_context_close(self.context);
  return NULL;
}

const char* capi_options(void) {
  opal_context_t* context = NULL;
  opal_context_options_t options = {0};
  REFUSED(opal_context_open(&options, &context), "struct_size");
  options.struct_size = 2 * sizeof(uint32_t); /* a program from before there were callbacks */
  options.on_peer_failed = (opal_peer_fn)(uintptr_t)1;
  CHECK(opal_context_open(&options, &context) == OPAL_OK);
  opal_context_close(context);

  struct {
    opal_context_options_t known;
    uint64_t unknown[4];
  } newer = {OPAL_INIT(opal_context_options_t), {1, 2, 3, 4}}; /* a program from the future */
  newer.known.struct_size = sizeof newer;
  newer.known.thread_level = OPAL_THREAD_MULTIPLE;
  CHECK(opal_context_open(&newer.known, &context) == OPAL_OK);
  opal_context_close(context);
  newer.known.thread_level = 7;
  REFUSED(opal_context_open(&newer.known, &context), "thread_level");
  return NULL;
}

const char* capi_names(void) {
  CHECK(strcmp(opal_status_name(OPAL_OK), "ok") == 0);
  CHECK(strcmp(opal_status_name(OPAL_QUEUED), "queued") == 0);
  CHECK(strcmp(opal_status_name(OPAL_AGAIN), "again") == 0);
  CHECK(strcmp(opal_status_name(OPAL_ERR_PEER_GONE), "peer_gone") == 0);
  CHECK(strcmp(opal_status_name(OPAL_ERR_INTERNAL), "internal") == 0);
  CHECK(strcmp(opal_status_name(-16), "unknown") == 0);
  CHECK(strcmp(opal_status_name(3), "unknown") == 0);
  for (opal_status_t status = OPAL_ERR_INTERNAL; status < 0; ++status) {
    CHECK(strcmp(opal_status_name(status), "unknown") != 0);
  }
  CHECK(strncmp(opal_version(), CAPI_TEXT(OPAL_VERSION_MAJOR) "." CAPI_TEXT(OPAL_VERSION_MINOR) ".", 4) == 0);
  return NULL;
}
