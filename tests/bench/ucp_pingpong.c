// SPDX-License-Identifier: Apache-2.0
// What pingpong.c measures, by the same code (pingpong.h), over UCX's tagged messages without an MPI above.  Two
// processes, one on each of two cores, which exchange their workers' addresses over a socket.  UCX_TLS chooses the
// transports.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

typedef void* transfer;

static ucp_worker_h worker;
static ucp_ep_h peer;
static int rank;

static void must(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "ucp_pingpong: %s failed\n", what);
  exit(1);
}

static void finish(transfer request) {
  if (request == NULL) return;
  must(!UCS_PTR_IS_ERR(request), "a message");
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
  must(ucp_request_check_status(request) == UCS_OK, "a message");
  ucp_request_free(request);
}

static void finish_all(transfer* transfers, int count) {
  for (int i = 0; i < count; ++i) finish(transfers[i]);
}

static transfer start_send(const void* bytes, size_t size, ucp_tag_t tag) {
  const ucp_request_param_t none = {0};
  return ucp_tag_send_nbx(peer, bytes, size, tag, &none);
}
static transfer start_receive(void* bytes, size_t size, ucp_tag_t tag) {
  const ucp_request_param_t none = {0};
  return ucp_tag_recv_nbx(worker, bytes, size, tag, ~(ucp_tag_t)0, &none);
}
static void send_now(const void* bytes, size_t size, ucp_tag_t tag) { finish(start_send(bytes, size, tag)); }
static void receive_now(void* bytes, size_t size, ucp_tag_t tag) { finish(start_receive(bytes, size, tag)); }

static void barrier(void) {
  char token = 0;
  if (rank == 0) send_now(&token, 1, 90);
  receive_now(&token, 1, rank == 0 ? 91 : 90);
  if (rank != 0) send_now(&token, 1, 91);
}

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

#include "pingpong.h"

static void connect_to(int socket) {
  ucp_config_t* config = NULL;
  ucp_context_h context = NULL;
  must(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
  must(ucp_init(&params, config, &context) == UCS_OK, "ucp_init");
  ucp_config_release(config);
  ucp_worker_params_t one = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
  must(ucp_worker_create(context, &one, &worker) == UCS_OK, "ucp_worker_create");
  ucp_address_t* address = NULL;
  size_t size = 0;
  must(ucp_worker_get_address(worker, &address, &size) == UCS_OK, "ucp_worker_get_address");
  static char theirs[65536];
  must(send(socket, address, size, 0) == (ssize_t)size, "send");
  must(recv(socket, theirs, sizeof theirs, 0) > 0, "recv");
  ucp_worker_release_address(worker, address);
  ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (ucp_address_t*)theirs};
  must(ucp_ep_create(worker, &to, &peer) == UCS_OK, "ucp_ep_create");
}

int main(int argc, char** argv) {
  const long first = argc > 1 ? atol(argv[1]) : 1;
  const long last = argc > 2 ? atol(argv[2]) : 64L << 20;
  int sockets[2];
  must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0, "socketpair");
  rank = fork() == 0 ? 1 : 0;
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(rank, &core);
  sched_setaffinity(0, sizeof core, &core);
  connect_to(sockets[rank]);
  measure(rank, first, last);
  barrier();
  return 0;
}
