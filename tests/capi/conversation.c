/* SPDX-License-Identifier: Apache-2.0 */
/* Two contexts of one process talk through the C interface. */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "opal/capi/opal.h"
#include "tests/capi/check.h"
#include "tests/capi/side.h"

const char* capi_messages(void) {
  struct side a, b;
  CHECK(open_pair(&a, &b) == OPAL_OK);
  CHECK(opal_send_or_queue(a.to_other, TAG, "head", 4, "tail", 4) == OPAL_DONE);
  CHECK(pump(&a, &b, &b.messages, 1));
  CHECK(b.last_size == 8 && memcmp(b.last, "headtail", 8) == 0);
  CHECK(b.connected == 1);

  opal_endpoint_set_user(b.from, &b);
  CHECK(opal_endpoint_user(b.from) == &b);
  CHECK(opal_endpoint_max_send(b.from) >= 1024);
  opal_status_t status;
  while ((status = opal_send(b.from, TAG, NULL, 0, "back", 4)) == OPAL_AGAIN) opal_context_progress(b.context);
  CHECK(status == OPAL_DONE);
  CHECK(pump(&a, &b, &a.messages, 1));
  CHECK(a.from == a.to_other && a.last_size == 4);

  char text[1000];
  const size_t length = opal_endpoint_explain(a.to_other, text, sizeof text);
  CHECK(length == strlen(text) && strstr(text, ": taken") != NULL);
  char shortened[5] = "xxxx";
  CHECK(opal_endpoint_explain(a.to_other, shortened, sizeof shortened) == length);
  CHECK(strlen(shortened) == 4 && memcmp(shortened, text, 4) == 0);
  CHECK(opal_endpoint_explain(a.to_other, NULL, 0) == length);
  close_pair(&a, &b);
  return NULL;
}

const char* capi_queue(void) {
  struct side a, b;
  CHECK(open_pair(&a, &b) == OPAL_OK);
  for (int i = 0; i < 3000; ++i) CHECK(opal_send_or_queue(a.to_other, TAG, &i, sizeof i, NULL, 0) == OPAL_DONE);
  CHECK(pump(&a, &b, &b.messages, 3000));
  int last;
  memcpy(&last, b.last, sizeof last);
  CHECK(last == 2999);
  close_pair(&a, &b);
  return NULL;
}

static int called;
static void on_end(opal_completion_t* self) { called += self->finished && self->status == OPAL_OK; }

const char* capi_put_get(void) {
  static uint64_t memory[100];
  struct side a, b;
  opal_region_t* region;
  opal_remote_key_t key;
  opal_completion_t end = {0};
  const void* bytes;
  size_t size;
  memset(memory, 0, sizeof memory);
  called = 0;
  CHECK(open_pair(&a, &b) == OPAL_OK);
  CHECK(opal_register(b.context, memory, sizeof memory, OPAL_REMOTE_ALL, &region) == OPAL_OK);
  opal_region_key(region, &bytes, &size);
  CHECK(opal_unpack_key(a.to_other, bytes, size, &key) == OPAL_OK);

  const uint64_t middle = (uint64_t)(uintptr_t)&memory[50];
  uint64_t word = 42, back[3], old = 0;
  end.fn = on_end;
  opal_status_t status = opal_put(a.to_other, &word, middle, &key, sizeof word, &end);
  CHECK(ended(&a, &b, status, &end) == OPAL_OK && end.finished && called == (status == OPAL_QUEUED));
  CHECK(memory[49] == 0 && memory[50] == 42 && memory[51] == 0);
  status = opal_get(a.to_other, back, middle - 8, &key, sizeof back, &end);
  CHECK(ended(&a, &b, status, &end) == OPAL_OK);
  CHECK(back[0] == 0 && back[1] == 42 && back[2] == 0);

  status = opal_atomic(a.to_other, OPAL_ADD, OPAL_U64, middle, &key, 8, 0, &old, &end);
  CHECK(ended(&a, &b, status, &end) == OPAL_OK && old == 42 && memory[50] == 50);
  status = opal_atomic(a.to_other, OPAL_COMPARE_SWAP, OPAL_U64, middle, &key, 7, 50, &old, &end);
  CHECK(ended(&a, &b, status, &end) == OPAL_OK && old == 50 && memory[50] == 7);
  CHECK(ended(&a, &b, opal_flush(a.to_other, &end), &end) == OPAL_OK);
  CHECK(ended(&a, &b, opal_flush_all(a.context, &end), &end) == OPAL_OK);

  /* One byte beyond the end: that operation fails, nothing is written, others go on. */
  const uint64_t past = (uint64_t)(uintptr_t)(memory + 100) - 7;
  memory[99] = 5;
  status = ended(&a, &b, opal_put(a.to_other, &word, past, &key, 8, &end), &end);
  CHECK(status < 0 && end.finished && end.status == status && memory[99] == 5);
  status = opal_put(a.to_other, &word, middle, &key, sizeof word, &end);
  CHECK(ended(&a, &b, status, &end) == OPAL_OK && memory[50] == 42);
  opal_deregister(region);
  close_pair(&a, &b);
  return NULL;
}

const char* capi_stale(void) {
  static uint64_t memory[4];
  struct side a, b;
  opal_region_t *region, *other;
  opal_remote_key_t key;
  opal_completion_t end = {0};
  const void* bytes;
  size_t size;
  const uint64_t word = 1;
  CHECK(open_pair(&a, &b) == OPAL_OK);
  CHECK(opal_register(b.context, memory, 16, OPAL_REMOTE_WRITE, &region) == OPAL_OK);
  CHECK(opal_register(b.context, memory + 2, 16, OPAL_REMOTE_WRITE, &other) == OPAL_OK);
  opal_region_key(region, &bytes, &size);
  CHECK(opal_unpack_key(a.to_other, bytes, size, &key) == OPAL_OK);
  uint64_t got = 9;
  CHECK(ended(&a, &b, opal_get(a.to_other, &got, (uint64_t)(uintptr_t)memory, &key, 8, &end), &end) < 0);
  CHECK(got == 9); /* only writing was allowed */
  opal_deregister(region);
  opal_deregister(NULL);
  CHECK(ended(&a, &b, opal_put(a.to_other, &word, (uint64_t)(uintptr_t)memory, &key, 8, &end), &end) < 0);
  CHECK(memory[0] == 0);
  CHECK(strlen(opal_last_error()) != 0);
  close_pair(&a, &b); /* `other` ends with its context */
  return NULL;
}

const char* capi_handlers(void) {
  struct side a, b;
  CHECK(open_pair(&a, &b) == OPAL_OK);
  CHECK(opal_set_handler(b.context, TAG, on_message, &b) == OPAL_ERR_LIMIT_REACHED);
  CHECK(opal_set_handler(b.context, TAG_OTHER, on_message, &b) == OPAL_OK);
  CHECK(opal_send_or_queue(a.to_other, TAG_OTHER, NULL, 0, NULL, 0) == OPAL_DONE);
  CHECK(pump(&a, &b, &b.messages, 1) && b.last_size == 0);
  opal_clear_handler(b.context, TAG_OTHER);
  CHECK(opal_send_or_queue(a.to_other, TAG_OTHER, NULL, 0, NULL, 0) == OPAL_DONE); /* dropped */
  CHECK(opal_send_or_queue(a.to_other, TAG, "x", 1, NULL, 0) == OPAL_DONE);
  CHECK(pump(&a, &b, &b.messages, 2) && b.last_size == 1);
  CHECK(opal_set_handler(b.context, TAG_OTHER, on_message, &b) == OPAL_OK);
  close_pair(&a, &b);
  return NULL;
}

struct finder {
  struct side* side;
  const char* where;
  opal_status_t status;
  int done;
};
static void* find(void* argument) {
  struct finder* self = argument;
  self->status = opal_connect_to(self->side->context, self->where, 20000, &self->side->to_other);
  __atomic_store_n(&self->done, 1, __ATOMIC_RELEASE);
  return NULL;
}

const char* capi_listen(void) {
  struct side a, b;
  char where[64], shortened[6];
  CHECK(open_side(&a) == OPAL_OK && open_side(&b) == OPAL_OK);
  CHECK(opal_listen(b.context, "127.0.0.1:0", where, sizeof where) == OPAL_OK);
  CHECK(strncmp(where, "127.0.0.1:", 10) == 0);
  CHECK(opal_listen(b.context, "127.0.0.1:0", NULL, 0) == OPAL_ERR_INVALID_ARGUMENT); /* it listens already */
  CHECK(opal_listen(a.context, "127.0.0.1:0", shortened, sizeof shortened) == OPAL_OK);
  CHECK(strcmp(shortened, "127.0") == 0);

  struct finder finder = {&a, where, OPAL_ERR_INTERNAL, 0};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, find, &finder) == 0);
  while (!__atomic_load_n(&finder.done, __ATOMIC_ACQUIRE)) opal_context_progress(b.context);
  pthread_join(thread, NULL);
  CHECK(finder.status == OPAL_OK);
  CHECK(opal_send_or_queue(a.to_other, TAG, "hello", 5, NULL, 0) == OPAL_DONE);
  CHECK(pump(&a, &b, &b.messages, 1) && b.connected == 1);
  close_pair(&a, &b);
  return NULL;
}

static int has_message(void* user) { return ((struct side*)user)->messages != 0; }
static int never(void* user) { return user == NULL ? 0 : 0; }

const char* capi_waiting(void) {
  struct side self;
  const void* address;
  size_t size;
  CHECK(open_side(&self) == OPAL_OK);
  CHECK(opal_wait(self.context, 1) == 0);
  CHECK(opal_wait_until(self.context, never, NULL, 1) == 0);
  opal_context_address(self.context, &address, &size);
  CHECK(opal_connect(self.context, address, size, &self.to_other) == OPAL_OK);

  while (!opal_arm(self.context)) opal_context_progress(self.context);
  struct pollfd fd = {opal_fd(self.context), POLLIN, 0};
  CHECK(opal_send_or_queue(self.to_other, TAG, "x", 1, NULL, 0) == OPAL_DONE);
  CHECK(poll(&fd, 1, 20000) == 1);
  CHECK(opal_wait_until(self.context, has_message, &self, 20000) == 1);
  opal_context_close(self.context);
  return NULL;
}

const char* capi_memory(void) {
  static const char* const hints[] = {NULL, "heap", "hugepage", "shared", "registered"};
  struct side a, b;
  opal_region_t* region;
  opal_remote_key_t key;
  opal_completion_t end;
  const void* bytes;
  size_t size;
  void* wrong;
  CHECK(open_pair(&a, &b) == OPAL_OK);
  for (size_t i = 0; i < sizeof hints / sizeof *hints; ++i) {
    void* memory;
    uint64_t sent = 0x1122334455667788u + i;
    CHECK(opal_mem_alloc(b.context, 10000, 65536, hints[i], &memory) == OPAL_OK);
    CHECK((uintptr_t)memory % 65536 == 0);
    memset(memory, 1, 10000);
    CHECK(opal_register(b.context, memory, 10000, OPAL_REMOTE_ALL, &region) == OPAL_OK);
    opal_region_key(region, &bytes, &size);
    CHECK(opal_unpack_key(a.to_other, bytes, size, &key) == OPAL_OK);
    memset(&end, 0, sizeof end);
    CHECK(opal_put(a.to_other, &sent, (uint64_t)(uintptr_t)memory + 5000, &key, sizeof sent, &end) >= 0);
    for (int tries = 0; tries < 10000000 && !end.finished; ++tries) {
      opal_context_progress(a.context);
      opal_context_progress(b.context);
    }
    CHECK(end.finished && end.status == OPAL_OK);
    memset(&end, 0, sizeof end);
    CHECK(opal_flush(a.to_other, &end) >= 0);
    for (int tries = 0; tries < 10000000 && !end.finished; ++tries) {
      opal_context_progress(a.context);
      opal_context_progress(b.context);
    }
    CHECK(memcmp((const char*)memory + 5000, &sent, sizeof sent) == 0);
    opal_deregister(region);
    CHECK(opal_mem_free(b.context, (char*)memory + 4096) == OPAL_ERR_INVALID_ARGUMENT);
    CHECK(opal_mem_free(a.context, memory) == OPAL_ERR_INVALID_ARGUMENT);
    CHECK(opal_mem_free(b.context, memory) == OPAL_OK);
    CHECK(opal_mem_free(b.context, memory) == OPAL_ERR_INVALID_ARGUMENT);
  }
  CHECK(opal_mem_free(b.context, NULL) == OPAL_OK);
  CHECK(opal_mem_alloc(b.context, 1, 0, "tape", &wrong) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(strstr(opal_last_error(), "tape") != NULL);
  CHECK(opal_mem_alloc(b.context, 1, 3, NULL, &wrong) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(opal_mem_alloc(b.context, 1, 0, NULL, &wrong) == OPAL_OK); /* freed by the end of its context */
  close_pair(&a, &b);
  return NULL;
}

/* What came of a put of one word to b's memory. */
static opal_status_t put_word(struct side* a, struct side* b, const opal_remote_key_t* key, void* to) {
  static const uint64_t word = 0x5566778899aabbccu;
  opal_completion_t end = {0};
  opal_status_t posted;
  do {
    posted = opal_put(a->to_other, &word, (uint64_t)(uintptr_t)to, key, sizeof word, &end);
    opal_context_progress(a->context);
    opal_context_progress(b->context);
  } while (posted == OPAL_AGAIN);
  for (int tries = 0; tries < 10000000 && posted == OPAL_QUEUED && !end.finished; ++tries) {
    opal_context_progress(a->context);
    opal_context_progress(b->context);
  }
  return posted < 0 ? posted : end.status;
}

const char* capi_address_space(void) {
  struct side a, b;
  opal_region_t *everything, *again, *other;
  opal_remote_key_t key;
  const void* bytes;
  size_t size;
  void* hidden;
  static uint64_t word;
  CHECK(open_pair(&a, &b) == OPAL_OK);
  const opal_status_t made = opal_register_address_space(b.context, OPAL_REMOTE_ALL, &everything);
  if (made == OPAL_ERR_NOT_SUPPORTED) { /* no patcher on this machine: said so */
    CHECK(strlen(opal_last_error()) != 0);
    close_pair(&a, &b);
    return NULL;
  }
  CHECK(made == OPAL_OK);
  CHECK(opal_register_address_space(b.context, OPAL_REMOTE_ALL, &again) == OPAL_ERR_LIMIT_REACHED);
  opal_region_key(everything, &bytes, &size);
  CHECK(opal_unpack_key(a.to_other, bytes, size, &key) == OPAL_OK);
  void* const later = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(later != MAP_FAILED);
  CHECK(put_word(&a, &b, &key, later) == OPAL_OK && *(uint64_t*)later == 0x5566778899aabbccu);
  CHECK(put_word(&a, &b, &key, &word) == OPAL_OK && word == 0x5566778899aabbccu);
  CHECK(opal_exclude(everything, later, 8192, 1) == OPAL_OK);
  CHECK(put_word(&a, &b, &key, later) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(opal_exclude(everything, later, 8192, 0) == OPAL_OK);
  CHECK(put_word(&a, &b, &key, later) == OPAL_OK);
  munmap(later, 8192);
  CHECK(put_word(&a, &b, &key, later) == OPAL_ERR_INVALID_ARGUMENT);

  CHECK(opal_map_unregistered(everything, 100, &hidden) == OPAL_OK);
  CHECK(put_word(&a, &b, &key, hidden) == OPAL_ERR_INVALID_ARGUMENT && *(uint64_t*)hidden == 0);
  CHECK(opal_unmap_unregistered(everything, hidden) == OPAL_OK);
  CHECK(opal_unmap_unregistered(everything, hidden) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(opal_map_unregistered(everything, 100, &hidden) == OPAL_OK); /* unmapped by the end of the region */

  CHECK(opal_register(b.context, &word, sizeof word, OPAL_REMOTE_ALL, &other) == OPAL_OK);
  CHECK(opal_exclude(other, &word, sizeof word, 1) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(opal_map_unregistered(other, 100, &hidden) == OPAL_ERR_INVALID_ARGUMENT);
  opal_deregister(everything);
  CHECK(put_word(&a, &b, &key, &word) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(opal_register_address_space(b.context, OPAL_REMOTE_READ, &everything) == OPAL_OK);
  opal_region_key(everything, &bytes, &size);
  CHECK(opal_unpack_key(a.to_other, bytes, size, &key) == OPAL_OK);
  CHECK(put_word(&a, &b, &key, &word) == OPAL_ERR_PERMISSION);
  close_pair(&a, &b);
  return NULL;
}

static int canceled;
static void on_canceled(opal_completion_t* self) { canceled += self->status < 0; }

const char* capi_endings(void) {
  static uint64_t memory[1000];
  struct side a, b;
  opal_region_t* region;
  opal_remote_key_t key;
  const void* bytes;
  size_t size;
  opal_completion_t ends[16];
  int queued = 0;
  canceled = 0;
  CHECK(open_pair(&a, &b) == OPAL_OK);
  CHECK(opal_register(b.context, memory, sizeof memory, OPAL_REMOTE_ALL, &region) == OPAL_OK);
  opal_region_key(region, &bytes, &size);
  CHECK(opal_unpack_key(a.to_other, bytes, size, &key) == OPAL_OK);
  memset(ends, 0, sizeof ends);
  for (int i = 0; i < 16; ++i) { /* nobody progresses: what is queued stays so */
    ends[i].fn = on_canceled;
    const opal_status_t status = opal_get(a.to_other, memory, (uint64_t)(uintptr_t)memory, &key, 8, &ends[i]);
    CHECK(status == OPAL_QUEUED || status == OPAL_AGAIN || status == OPAL_DONE);
    queued += status == OPAL_QUEUED;
  }
  opal_disconnect(a.to_other);
  CHECK(canceled == queued);
  opal_disconnect(NULL);
  close_pair(&a, &b);
  opal_context_close(NULL);
  return NULL;
}

const char* capi_checkpoint(void) {
  struct side a, b;
  int quiet = 0;
  opal_cache_statistics_t local = OPAL_INIT(opal_cache_statistics_t);
  opal_cache_statistics_t remote = OPAL_INIT(opal_cache_statistics_t);
  CHECK(open_pair(&a, &b) == OPAL_OK);
  CHECK(opal_send_or_queue(a.to_other, TAG, "one", 3, NULL, 0) == OPAL_DONE);
  CHECK(pump(&a, &b, &b.messages, 1));
  CHECK(opal_context_checkpoint(a.context) == OPAL_ERR_BUSY);
  CHECK(opal_context_restart(a.context) == OPAL_ERR_BUSY);
  CHECK(opal_context_quiesce(a.context, 1) == OPAL_OK);
  CHECK(opal_context_quiesce(b.context, 1) == OPAL_OK);
  CHECK(opal_send_or_queue(a.to_other, TAG, "two", 3, NULL, 0) == OPAL_DONE);
  for (long i = 0; i < 20000000 && !quiet; ++i) {
    opal_context_progress(a.context);
    opal_context_progress(b.context);
    quiet = opal_context_quiet(a.context) & opal_context_quiet(b.context); /* each has its part to do in it */
  }
  CHECK(quiet && b.messages == 1);
  CHECK(opal_context_checkpoint(a.context) == OPAL_OK);
  CHECK(opal_context_checkpoint(b.context) == OPAL_OK);
  CHECK(opal_registration_statistics(a.context, &local, &remote) == OPAL_OK);
  CHECK(local.registered == 0 && remote.registered == 0 && remote.struct_size == sizeof remote);
  opal_context_resume(a.context);
  opal_context_resume(b.context);
  CHECK(pump(&a, &b, &b.messages, 2));
  CHECK(opal_registration_statistics(a.context, NULL, NULL) == OPAL_OK);
  local.struct_size = 2;
  CHECK(opal_registration_statistics(a.context, &local, NULL) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(opal_registration_statistics(NULL, NULL, NULL) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(opal_context_quiesce(NULL, 1) == OPAL_ERR_INVALID_ARGUMENT && opal_context_quiet(NULL) == 0);
  CHECK(opal_context_checkpoint(NULL) == OPAL_ERR_INVALID_ARGUMENT);
  CHECK(opal_context_restart(NULL) == OPAL_ERR_INVALID_ARGUMENT);
  opal_context_resume(NULL);
  close_pair(&a, &b);
  return NULL;
}
