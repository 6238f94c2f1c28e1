/* SPDX-License-Identifier: Apache-2.0 */
/* One key for all of a process's memory: the owner hands it out once; from then on it only names addresses, also of
 * memory that it allocates later.  What it wants to keep to itself it excludes.  Two processes, no launcher:
 *   whole_address_space
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "opal/capi/opal.h"

enum { TAG_KEY = OPAL_TAG_USER_FIRST, TAG_BLOCK, TAG_DONE };
enum { SIZE = 1 << 20 };

struct side {
  opal_context_t* context;
  opal_endpoint_t* peer;
  opal_remote_key_t key;
  uint64_t block, secret; /* where the owner wants something written, and where it does not */
  int has_key, done;
};

static int fail(const char* what) {
  fprintf(stderr, "whole_address_space: %s: %s\n", what, opal_last_error());
  return 1;
}

static void on_key(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  struct side* self = user;
  self->peer = from;
  self->has_key = opal_unpack_key(from, data, size, &self->key) == OPAL_OK ? 1 : -1;
}
static void on_block(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  struct side* self = user;
  (void)from;
  if (size != 2 * sizeof(uint64_t)) return; /* a peer's bytes: check before use */
  memcpy(&self->block, data, sizeof(uint64_t));
  memcpy(&self->secret, (const char*)data + sizeof(uint64_t), sizeof(uint64_t));
}
static void on_done(void* user, opal_endpoint_t* from, const void* data, size_t size) {
  (void)from, (void)data, (void)size;
  ((struct side*)user)->done = 1;
}

static opal_status_t put(struct side* self, const void* source, uint64_t address, uint64_t size) {
  opal_completion_t completion = {0};
  opal_status_t posted;
  while ((posted = opal_put(self->peer, source, address, &self->key, size, &completion)) == OPAL_AGAIN) {
    opal_context_progress(self->context);
  }
  while (posted == OPAL_QUEUED && !completion.finished) opal_wait(self->context, 100);
  return posted < 0 ? posted : completion.status;
}

static int open_side(struct side* self) {
  const opal_context_options_t options = OPAL_INIT(opal_context_options_t);
  return opal_context_open(&options, &self->context) == OPAL_OK &&
         opal_set_handler(self->context, TAG_KEY, on_key, self) == OPAL_OK &&
         opal_set_handler(self->context, TAG_BLOCK, on_block, self) == OPAL_OK &&
         opal_set_handler(self->context, TAG_DONE, on_done, self) == OPAL_OK;
}

/* Owns the memory.  77: this machine cannot follow mappings. */
static int own(int to_writer) {
  struct side self = {0};
  opal_region_t* everything;
  char where[256];
  const void* key;
  size_t key_size;
  void* secret;
  if (!open_side(&self)) return fail("open");
  if (opal_register_address_space(self.context, OPAL_REMOTE_WRITE, &everything) != OPAL_OK) {
    fprintf(stderr, "%s\n", opal_last_error());
    return 77;
  }
  if (opal_listen(self.context, "127.0.0.1:0", where, sizeof where) != OPAL_OK) return fail("listen");
  if (write(to_writer, where, strlen(where) + 1) < 0) return 1;
  while (self.peer == NULL) opal_wait(self.context, 100); /* the writer says hello */
  opal_region_key(everything, &key, &key_size);
  opal_send_or_queue(self.peer, TAG_KEY, NULL, 0, key, key_size);

  /* Only now is there memory to write to, and some that stays private. */
  unsigned char* const block = calloc(1, SIZE);
  if (block == NULL || opal_map_unregistered(everything, SIZE, &secret) != OPAL_OK) return fail("memory");
  const uint64_t places[2] = {(uint64_t)(uintptr_t)block, (uint64_t)(uintptr_t)secret};
  opal_send_or_queue(self.peer, TAG_BLOCK, places, sizeof places, NULL, 0);
  while (!self.done) opal_wait(self.context, 100);

  int good = 1;
  for (int i = 0; i < SIZE; ++i) good = good && block[i] == 42 && ((unsigned char*)secret)[i] == 0;
  printf("new memory: %s\n", good ? "right" : "WRONG");
  fflush(stdout);
  opal_deregister(everything);
  opal_context_close(self.context);
  free(block);
  return good ? 0 : 1;
}

static int write_there(int from_owner) {
  struct side self = {0};
  static unsigned char bytes[SIZE];
  char where[256] = "";
  opal_endpoint_t* owner;
  if (read(from_owner, where, sizeof where - 1) <= 0) return 77; /* the owner has given up */
  if (!open_side(&self)) return fail("open");
  if (opal_connect_to(self.context, where, 10000, &owner) != OPAL_OK) return fail(where);
  opal_send_or_queue(owner, TAG_KEY, NULL, 0, NULL, 0);
  while (!self.has_key || self.block == 0) opal_wait(self.context, 100);
  if (self.has_key < 0) return fail("key");
  memset(bytes, 42, sizeof bytes);
  if (put(&self, bytes, self.block, SIZE) != OPAL_OK) return fail("put");
  const opal_status_t secret = put(&self, bytes, self.secret, SIZE);
  printf("secret: %s\n", secret == OPAL_OK ? "WRITTEN" : "refused");
  opal_send_or_queue(self.peer, TAG_DONE, NULL, 0, NULL, 0);
  opal_context_close(self.context);
  return secret == OPAL_OK;
}

int main(void) {
  int ends[2], status = 0;
  if (pipe(ends) != 0) return 1;
  const pid_t owner = fork(); /* before a context is open: that one follows a process's mappings from its start */
  if (owner == 0) {
    close(ends[0]);
    return own(ends[1]);
  }
  close(ends[1]);
  const int mine = write_there(ends[0]);
  if (mine == 1) kill(owner, SIGTERM); /* it waits for this process */
  waitpid(owner, &status, 0);
  const int theirs = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  if (theirs == 77) printf("not possible here\n");
  return theirs == 77 ? 0 : mine | theirs;
}
