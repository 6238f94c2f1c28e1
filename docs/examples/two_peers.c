/* SPDX-License-Identifier: Apache-2.0 */
/* The C form of two_peers.cpp: two programs exchange active messages, and put into and get from the middle of each
 * other's memory.  No launcher, no MPI.
 *   two_peers_c listen 127.0.0.1:7777 [FILE]
 *   two_peers_c connect 127.0.0.1:7777
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "opal/capi/opal.h"

enum { TAG_HELLO = OPAL_TAG_USER_FIRST, TAG_LOOK, TAG_BYE };
enum { WORDS = 1 << 17, MIDDLE = WORDS / 2, PART = 1000 };

static uint64_t memory[WORDS];

struct conversation {
  opal_context_t* context;
  opal_region_t* region;
  opal_endpoint_t* remote;
  uint64_t remote_address;
  opal_remote_key_t remote_key;
  int greeted, seen, said_bye, failed, good;
};

static void greet(struct conversation* self, opal_endpoint_t* to) {
  const void* key = NULL;
  size_t key_size = 0;
  uint64_t address = (uint64_t)(uintptr_t)memory;
  opal_region_key(self->region, &key, &key_size);
  opal_send_or_queue(to, TAG_HELLO, &address, sizeof address, key, key_size);
  self->greeted = 1;
}

static void on_hello(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  struct conversation* self = user;
  if (size < sizeof self->remote_address) return; /* a peer's bytes: check before use */
  if (opal_unpack_key(from, (const char*)data + sizeof self->remote_address, size - sizeof self->remote_address,
                      &self->remote_key) != OPAL_OK) {
    fprintf(stderr, "two_peers_c: the peer's key: %s\n", opal_last_error());
    self->failed = 1;
    return;
  }
  memcpy(&self->remote_address, data, sizeof self->remote_address);
  self->remote = from;
  if (!self->greeted) greet(self, from);
}

static void on_look(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  struct conversation* self = user;
  (void)data;
  (void)size;
  for (int i = 0; i < PART; ++i) self->good = self->good && memory[MIDDLE + i] == 0xabcdef;
  self->seen = 1;
  opal_send_or_queue(from, TAG_BYE, NULL, 0, NULL, 0);
}

static void on_bye(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  (void)from;
  (void)data;
  (void)size;
  ((struct conversation*)user)->said_bye = 1;
}

static void on_peer_failed(void* user, opal_endpoint_t* peer, opal_status_t why) {
  struct conversation* self = user;
  (void)peer;
  if (!self->seen || !self->said_bye) fprintf(stderr, "two_peers_c: the peer has ended: %s\n", opal_status_name(why));
  self->failed = 1;
}

static int fail(const char* what) {
  fprintf(stderr, "two_peers_c: %s: %s\n", what, opal_last_error());
  return 1;
}

static opal_status_t finish(struct conversation* self, opal_status_t posted, opal_completion_t* completion) {
  while (posted == OPAL_QUEUED && !completion->finished) opal_wait(self->context, 100);
  return posted < 0 ? posted : completion->status;
}

static int talk(struct conversation* self) {
  static uint64_t mine[PART], back[PART + 2];
  char why[4096];
  opal_completion_t completion = {0};
  opal_status_t posted;
  const uint64_t word = sizeof(uint64_t);

  while (self->remote == NULL) {
    if (self->failed) return 1;
    opal_wait(self->context, 100);
  }
  opal_endpoint_explain(self->remote, why, sizeof why);
  printf("connected by %.*s\n", (int)strcspn(why, "\n"), why); /* the transport that was taken comes first */

  const uint64_t middle = self->remote_address + MIDDLE * word;
  for (int i = 0; i < PART; ++i) mine[i] = 0xabcdef;
  while ((posted = opal_put(self->remote, mine, middle, &self->remote_key, sizeof mine, &completion)) == OPAL_AGAIN) {
    opal_context_progress(self->context);
  }
  if (finish(self, posted, &completion) != OPAL_OK) return fail("put");
  while ((posted = opal_get(self->remote, back, middle - word, &self->remote_key, sizeof back, &completion)) ==
         OPAL_AGAIN) {
    opal_context_progress(self->context);
  }
  if (finish(self, posted, &completion) != OPAL_OK) return fail("get");
  self->good = self->good && back[0] == MIDDLE - 1 && back[PART + 1] == MIDDLE + PART && back[1] == 0xabcdef &&
               back[PART] == 0xabcdef;

  opal_send_or_queue(self->remote, TAG_LOOK, NULL, 0, NULL, 0);
  while (!self->seen || !self->said_bye) {
    if (self->failed) return 1;
    opal_wait(self->context, 100);
  }
  printf("put and get of %d words in the middle of the peer's region: %s\n", PART, self->good ? "right" : "WRONG");
  return self->good ? 0 : 1;
}

int main(int argc, char** argv) {
  struct conversation self = {.good = 1};
  opal_context_options_t options = OPAL_INIT(opal_context_options_t);
  if (argc < 3 || (strcmp(argv[1], "listen") != 0 && strcmp(argv[1], "connect") != 0)) {
    fprintf(stderr, "usage: two_peers_c listen HOST:PORT [FILE] | two_peers_c connect HOST:PORT\n");
    return 2;
  }
  for (uint64_t i = 0; i < WORDS; ++i) memory[i] = i;
  options.on_peer_failed = on_peer_failed;
  options.user = &self;
  if (opal_context_open(&options, &self.context) != OPAL_OK) return fail("open");
  if (opal_register(self.context, memory, sizeof memory, OPAL_REMOTE_ALL, &self.region) != OPAL_OK ||
      opal_set_handler(self.context, TAG_HELLO, on_hello, &self) != OPAL_OK ||
      opal_set_handler(self.context, TAG_LOOK, on_look, &self) != OPAL_OK ||
      opal_set_handler(self.context, TAG_BYE, on_bye, &self) != OPAL_OK) {
    return fail("set-up");
  }

  if (strcmp(argv[1], "listen") == 0) {
    char where[256];
    if (opal_listen(self.context, argv[2], where, sizeof where) != OPAL_OK) return fail(argv[2]);
    printf("listening at %s\n", where);
    fflush(stdout);
    if (argc > 3) {
      FILE* file = fopen(argv[3], "w");
      if (file == NULL) return fail(argv[3]);
      fprintf(file, "%s\n", where);
      fclose(file);
    }
  } else {
    opal_endpoint_t* peer = NULL;
    if (opal_connect_to(self.context, argv[2], 10000, &peer) != OPAL_OK) return fail(argv[2]);
    greet(&self, peer);
  }
  const int status = talk(&self);
  opal_context_close(self.context);
  return status;
}
