/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opal/capi/opal.h -- OPAL for C: active messages, one-sided access and memory registration between processes.
 *
 * Conventions
 *  1. Functions that can fail return opal_status_t: OPAL_OK (0), or a negative code that never changes its number.
 *     opal_last_error() has the text of the calling thread's last failure.  "Errors:" below lists the names of
 *     opal_status_name(); any call may also fail with not_supported (rule 10).
 *  2. Operations that are posted return OPAL_DONE (0: finished, buffers reusable), OPAL_QUEUED (1: the completion will
 *     be called exactly once), OPAL_AGAIN (2: nothing happened; make progress and try again), or a negative code.
 *     The completion is called after OPAL_QUEUED only.
 *  3. Objects are opaque and belong to the context that made them.  opal_context_close ends endpoints and regions and
 *     frees memory of opal_mem_alloc; counters and queues are destroyed before it.
 *  4. Option structs start with struct_size, to be set with OPAL_INIT or sizeof: newer libraries read older structs.
 *  5. Bytes are pointer and length.  Keys and addresses are plain bytes, to be copied and sent by any means.
 *  6. Callbacks get the `user` pointer given with them.  They run one at a time, inside opal_context_progress, the
 *     functions that wait, opal_disconnect and opal_context_close.  They may post and call opal_disconnect; they must
 *     not wait or make progress.  Functions named *_or_queue never return OPAL_AGAIN, so callbacks can use them.
 *  7. Threads: with OPAL_THREAD_SINGLE one thread at a time uses a context; with OPAL_THREAD_MULTIPLE any thread may.
 *  8. A missing (NULL) argument, a tag, right or operation that does not exist: OPAL_ERR_INVALID_ARGUMENT and nothing
 *     happened; a post sets the status of its completion, too.  Dangling pointers and endpoints of another context are
 *     not detected: the behaviour is undefined.
 *  9. Configuration variables come from files, OPAL_* environment variables, and opal_context_options_t::settings,
 *     which win (opal-info lists them).
 * 10. fork(): a child cannot use a context that its parent opened; it opens its own.  opal_context_close of such a
 *     context has no effect on the parent; every other call fails with OPAL_ERR_NOT_SUPPORTED or does nothing.
 *     Exception: after opal_context_checkpoint in the parent, opal_context_restart makes the child's copy usable.
 * 11. Out of memory ends the process (std::terminate), except in functions whose errors include no_memory.
 */
#ifndef OPAL_H
#define OPAL_H

#include <stddef.h>
#include <stdint.h>

#define OPAL_VERSION_MAJOR 0
#define OPAL_VERSION_MINOR 1
#define OPAL_API __attribute__((visibility("default")))
#ifdef __cplusplus
#define OPAL_NOEXCEPT noexcept /* no exception crosses a C frame */
#else
#define OPAL_NOEXCEPT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t opal_status_t;
enum {
  OPAL_OK = 0,
  OPAL_DONE = 0,
  OPAL_QUEUED = 1,
  OPAL_AGAIN = 2,
  OPAL_ERR_BUSY = -1,
  OPAL_ERR_TIMED_OUT = -2,
  OPAL_ERR_NO_MEMORY = -3,
  OPAL_ERR_NO_SPACE = -4,
  OPAL_ERR_LIMIT_REACHED = -5,
  OPAL_ERR_INVALID_ARGUMENT = -6,
  OPAL_ERR_NOT_SUPPORTED = -7,
  OPAL_ERR_PERMISSION = -8,
  OPAL_ERR_UNREACHABLE = -9,
  OPAL_ERR_PEER_GONE = -10,
  OPAL_ERR_PROTOCOL = -11,
  OPAL_ERR_VERSION_MISMATCH = -12,
  OPAL_ERR_CANCELED = -13,
  OPAL_ERR_OS = -14,
  OPAL_ERR_INTERNAL = -15
};

/* "peer_gone" for OPAL_ERR_PEER_GONE and so on; never NULL, static. */
OPAL_API const char* opal_status_name(opal_status_t status) OPAL_NOEXCEPT;
/* One line about the calling thread's last failed call: what, where, errno.  Valid until its next failure. */
OPAL_API const char* opal_last_error(void) OPAL_NOEXCEPT;
/* "0.1.0" */
OPAL_API const char* opal_version(void) OPAL_NOEXCEPT;

typedef struct opal_context opal_context_t;
typedef struct opal_endpoint opal_endpoint_t;
typedef struct opal_region opal_region_t;

/* ---- Contexts ------------------------------------------------------------------------------------------------- */

enum { OPAL_THREAD_SINGLE = 0, OPAL_THREAD_MULTIPLE = 1 };

typedef void (*opal_peer_fn)(void* user, opal_endpoint_t* peer, opal_status_t why);

/* A configuration variable by its name in opal-info, e.g. {"am_transports", "sm,tcp"}. */
typedef struct opal_setting {
  const char* name;
  const char* value;
} opal_setting_t;

typedef struct opal_context_options {
  uint32_t struct_size;
  uint32_t thread_level;
  /* A peer has connected to this context, or an opal_connect_async has succeeded; why is OPAL_OK.  May be NULL. */
  opal_peer_fn on_peer_connected;
  /* The peer failed or disconnected, and every operation pending on it has completed with an error.  The endpoint stays
   * valid until opal_disconnect, which may be called from here.  Not called after opal_disconnect.  May be NULL. */
  opal_peer_fn on_peer_failed;
  void* user; /* for both */
  /* Variables that the program sets; copied.  A bad value is an error of opal_context_open. */
  const opal_setting_t* settings;
  size_t setting_count;
  /* The secret that this context and its peers prove to each other; 16 to 4096 bytes, copied; NULL: see opal_listen. */
  const void* secret;
  size_t secret_size;
} opal_context_options_t;
#ifdef __cplusplus
#define OPAL_INIT(type)                                             \
  ([]() -> type {                                                   \
    type opal_initial = type();                                     \
    opal_initial.struct_size = static_cast<uint32_t>(sizeof(type)); \
    return opal_initial;                                            \
  }())
#else
#define OPAL_INIT(type) \
  { .struct_size = sizeof(type) }
#endif

/* Opens every usable transport that am_transports allows.  options may be NULL.  Errors: unreachable (no transport),
 * invalid_argument (an option or variable), permission, no_memory, os. */
OPAL_API opal_status_t opal_context_open(const opal_context_options_t* options, opal_context_t** context) OPAL_NOEXCEPT;
/* NULL is allowed.  Pending completions are called with OPAL_ERR_CANCELED; regions still alive are deregistered. */
OPAL_API void opal_context_close(opal_context_t* context) OPAL_NOEXCEPT;

/* ---- Peers ---------------------------------------------------------------------------------------------------- */

/* The bytes with which any process can opal_connect to this context.  Valid until
 * opal_context_restart or opal_context_close. */
OPAL_API void opal_context_address(const opal_context_t* context, const void** address, size_t* size) OPAL_NOEXCEPT;
/* Returns the endpoint to that context, the existing one if there is one.  Errors: protocol, version_mismatch,
 * unreachable, peer_gone or busy (the peer's former endpoint is not disconnected yet). */
OPAL_API opal_status_t opal_connect(opal_context_t* context, const void* address, size_t size,
                                    opal_endpoint_t** peer) OPAL_NOEXCEPT;
/* As opal_connect, but returns at once: progress chooses the transport.  Until opal_endpoint_connected is 1, posts
 * return OPAL_AGAIN, and *_or_queue keeps the operation.  on_peer_connected or on_peer_failed reports the result; an
 * endpoint that existed is returned without a report. Errors: protocol, version_mismatch, peer_gone or busy (its former
 * endpoint is not disconnected yet). */
OPAL_API opal_status_t opal_connect_async(opal_context_t* context, const void* address, size_t size,
                                          opal_endpoint_t** peer) OPAL_NOEXCEPT;
/* 1 while a transport is chosen and the peer has not failed.  0 again after on_peer_failed: do not loop on it. */
OPAL_API int opal_endpoint_connected(const opal_endpoint_t* peer) OPAL_NOEXCEPT;
/* Ends an endpoint, which must not be used afterwards.  Called in a callback it takes effect when the current progress
 * call ends, at the latest when the next one ends; until then messages of the peer may still be handled.  A peer that
 * connects again has another endpoint.  A failed endpoint that is not disconnected holds about 600 bytes. */
OPAL_API void opal_disconnect(opal_endpoint_t* peer) OPAL_NOEXCEPT;
/* Accepts peers at "host:port" (port 0: the system chooses) and writes the "host:port" in use into `where`,
 * NUL-terminated; progress accepts, on_peer_connected reports each peer.  If it is called before opal_context_address,
 * the tcp transport too listens at that address only, unless btl_tcp_if_include or btl_tcp_if_exclude is set.
 * A peer must prove that it knows the secret: options.secret, else the file am_secret_file, else ~/.config/opal/secret,
 * which the first use makes.  OPAL_AM_SECRET_FILE=none asks for no proof.
 * Errors: invalid_argument (not "host:port"; already listening; no HOME for it), unreachable, permission, os. */
OPAL_API opal_status_t opal_listen(opal_context_t* context, const char* host_port, char* where,
                                   size_t where_size) OPAL_NOEXCEPT;
/* Connects to a context that called opal_listen with the same secret, and waits for it to start, at most `timeout_ms`
 * (negative: for ever).  The listener has to make progress.  Errors: invalid_argument, unreachable, timed_out,
 * permission, version_mismatch, protocol, os, and those of opal_connect. */
OPAL_API opal_status_t opal_connect_to(opal_context_t* context, const char* host_port, int timeout_ms,
                                       opal_endpoint_t** peer) OPAL_NOEXCEPT;
/* Writes which transport was chosen and why the others were not; returns the length of the whole text without the NUL,
 * as snprintf does. */
OPAL_API size_t opal_endpoint_explain(const opal_endpoint_t* peer, char* text, size_t size) OPAL_NOEXCEPT;
/* Largest header + payload of one message to this peer, bytes. */
OPAL_API size_t opal_endpoint_max_send(const opal_endpoint_t* peer) OPAL_NOEXCEPT;
/* A pointer per endpoint for the program, NULL at first; reads and writes are not synchronised. */
OPAL_API void opal_endpoint_set_user(opal_endpoint_t* peer, void* user) OPAL_NOEXCEPT;
OPAL_API void* opal_endpoint_user(const opal_endpoint_t* peer) OPAL_NOEXCEPT;

/* ---- Active messages ------------------------------------------------------------------------------------------ */

/* Tags for programs; the others belong to OPAL. */
enum { OPAL_TAG_USER_FIRST = 0x8000, OPAL_TAG_USER_LAST = 0xfffe };

/* `data` is header and payload in one run, 8-byte aligned, valid until the handler returns (a buffer of
 * opal_allocate_fn: until the program frees it). */
typedef void (*opal_handler_fn)(void* user, opal_endpoint_t* from, const void* data, size_t size);

/* Errors: invalid_argument (not a user tag, no function), limit_reached (the tag has a handler). */
OPAL_API opal_status_t opal_set_handler(opal_context_t* context, uint16_t tag, opal_handler_fn handler,
                                        void* user) OPAL_NOEXCEPT;
/* Supplies `size` bytes, 8-byte aligned, for header and payload of one message that is larger than
 * opal_endpoint_max_send.  The buffer is passed to the handler, which then owns it, or to `release` if the message does
 * not arrive.  NULL refuses the message: its sender gets OPAL_ERR_LIMIT_REACHED.  The peer chooses `size`: check it
 * against a limit. */
typedef void* (*opal_allocate_fn)(void* user, opal_endpoint_t* from, uint16_t tag, const void* header,
                                  size_t header_size, size_t size);
typedef void (*opal_release_fn)(void* user, void* buffer);
/* As opal_set_handler; large messages arrive in buffers of the program.  opal_set_handler receives them in memory of
 * the library, at most am_large_limit bytes per context at a time.  `release` may be NULL.  `release` and `user` may be
 * used for messages that are on their way until opal_context_close, also after opal_clear_handler. */
OPAL_API opal_status_t opal_set_handler_with_buffers(opal_context_t* context, uint16_t tag, opal_handler_fn handler,
                                                     opal_allocate_fn allocate, opal_release_fn release,
                                                     void* user) OPAL_NOEXCEPT;
/* Not from inside that handler. */
OPAL_API void opal_clear_handler(opal_context_t* context, uint16_t tag) OPAL_NOEXCEPT;

/* Both parts are copied; together at most opal_endpoint_max_send bytes.  Returns OPAL_DONE, OPAL_AGAIN or an error. */
OPAL_API opal_status_t opal_send(opal_endpoint_t* to, uint16_t tag, const void* header, size_t header_size,
                                 const void* payload, size_t payload_size) OPAL_NOEXCEPT;
/* As opal_send, but never returns OPAL_AGAIN: it keeps a copy, which progress sends, and returns OPAL_DONE.
 * Errors: limit_reached (am_pending_limit bytes of this peer wait). */
OPAL_API opal_status_t opal_send_or_queue(opal_endpoint_t* to, uint16_t tag, const void* header, size_t header_size,
                                          const void* payload, size_t payload_size) OPAL_NOEXCEPT;

/* A part of a message. */
typedef struct opal_iov {
  const void* data;
  size_t size;
} opal_iov_t;
enum { OPAL_IOV_MAX = 64 };
/* As opal_send, with the message in up to OPAL_IOV_MAX parts. */
OPAL_API opal_status_t opal_send_iov(opal_endpoint_t* to, uint16_t tag, const opal_iov_t* parts,
                                     size_t count) OPAL_NOEXCEPT;

/* How a queued operation ends.  Owned by the caller; must live until fn is called (in which it may be freed), or until
 * `finished` is 1.  The post initializes status, finished and reserved. */
typedef struct opal_completion opal_completion_t;
struct opal_completion {
  void (*fn)(opal_completion_t* self); /* may be NULL: then read `finished`; with OPAL_THREAD_MULTIPLE, see below */
  void* user;
  opal_status_t status; /* OPAL_OK or why it failed; set before fn and before a post returns an error */
  int32_t finished;     /* 1 once it has ended, also by OPAL_DONE or an error; 0 while queued and after OPAL_AGAIN */
  uint64_t reserved[6]; /* the library's */
};
/* With OPAL_THREAD_MULTIPLE `finished` is read only in the condition of opal_wait_until: the thread that makes progress
 * writes it. */

/* A message of any size.  Up to opal_endpoint_max_send bytes it is as opal_send_or_queue.  Of a larger one the header,
 * which fits into one message, is copied; the caller keeps the payload unchanged until the completion, which is called
 * after the peer's handler has returned.  It does not overtake earlier messages; later short ones may overtake it.
 * Errors of the completion: limit_reached (am_large_limit of the receiver, or its opal_allocate_fn returned NULL),
 * not_supported (no handler at the receiver), no_memory (there), that of the failed peer, canceled.  The post fails
 * with limit_reached (am_pending_limit here); it returns OPAL_AGAIN during a checkpoint, and for a large message until
 * the endpoint is connected. */
OPAL_API opal_status_t opal_send_any(opal_endpoint_t* to, uint16_t tag, const void* header, size_t header_size,
                                     const void* payload, size_t payload_size,
                                     opal_completion_t* completion) OPAL_NOEXCEPT;

/* ---- Memory and one-sided access ------------------------------------------------------------------------------ */

enum { OPAL_REMOTE_READ = 1, OPAL_REMOTE_WRITE = 2, OPAL_REMOTE_ATOMIC = 4, OPAL_REMOTE_ALL = 7 };

/* Errors: invalid_argument (the range wraps, unknown rights), limit_reached. */
OPAL_API opal_status_t opal_register(opal_context_t* context, void* base, uint64_t size, uint32_t rights,
                                     opal_region_t** region) OPAL_NOEXCEPT;
/* When it returns, every use of the region's key by a peer is refused.  NULL is allowed. */
OPAL_API void opal_deregister(opal_region_t* region) OPAL_NOEXCEPT;
/* The bytes that a peer needs; valid until opal_context_restart or the region's end. */
OPAL_API void opal_region_key(const opal_region_t* region, const void** key, size_t* size) OPAL_NOEXCEPT;

/* One region for whatever this process has mapped, now and later: a peer that has its key puts and gets at any valid
 * address.  The region follows mmap, brk, mremap, munmap and mprotect before they return, and refuses accesses that the
 * mapping's protection forbids.  One per context.  opal_region_key and opal_deregister work as with any region. Errors:
 * not_supported (libc's system calls are not intercepted: the context was opened after threads were started, or the
 * machine is not x86-64), limit_reached (the context has one), no_memory. */
OPAL_API opal_status_t opal_register_address_space(opal_context_t* context, uint32_t rights,
                                                   opal_region_t** region) OPAL_NOEXCEPT;
/* excluded != 0: peers cannot access the pages of [address, +size) that are mapped now, until they are unmapped or
 * excluded == 0 is set for them.  Errors: invalid_argument (a region of another kind). */
OPAL_API opal_status_t opal_exclude(opal_region_t* address_space, const void* address, size_t size,
                                    int excluded) OPAL_NOEXCEPT;
/* Private memory in whole pages that no peer can ever access.  It exists until opal_unmap_unregistered, at the latest
 * until opal_deregister of the region.  Errors: invalid_argument, no_memory, os. */
OPAL_API opal_status_t opal_map_unregistered(opal_region_t* address_space, size_t size, void** memory) OPAL_NOEXCEPT;
/* Errors: invalid_argument (not such memory: nothing happened). */
OPAL_API opal_status_t opal_unmap_unregistered(opal_region_t* address_space, void* memory) OPAL_NOEXCEPT;

/* Memory in whole pages, at a multiple of `alignment` (a power of two; 0: any page), contents unspecified.  `hint`:
 * "heap" (or NULL), "hugepage" (falls back to smaller pages), "shared" (local peers can map it), "hugepage,shared",
 * "cuda_host" (pinned for copies from and to GPUs), or "registered": blocks at a multiple of `alignment` (0: of 16) of
 * memory that is registered with the context's devices in advance.  "registered" follows the context's thread level;
 * the others may be used from any thread.  A block exists until opal_mem_free, at the latest until opal_context_close.
 * Errors: invalid_argument (hint, alignment, size 0), no_memory, no_space, limit_reached, os, not_supported
 * (cuda_host). */
OPAL_API opal_status_t opal_mem_alloc(opal_context_t* context, size_t size, size_t alignment, const char* hint,
                                      void** memory) OPAL_NOEXCEPT;
/* NULL is allowed.  Regions of the memory are to be deregistered before.  Errors: invalid_argument (not such memory, or
 * freed already: nothing happened). */
OPAL_API opal_status_t opal_mem_free(opal_context_t* context, void* memory) OPAL_NOEXCEPT;
/* Tells that [address, +size) was or is about to be unmapped, replaced or emptied, so that nothing about it is kept in
 * registration caches of this process; a peer that has mapped GPU memory may keep it mapped (docs/design/smcuda.md).
 * For programs that set memory_monitor to explicit, and for memory that goes in ways no monitor sees.  Any thread; does
 * not allocate or lock. */
OPAL_API void opal_memory_released(const void* address, size_t size) OPAL_NOEXCEPT;

/* A peer's key, decoded for one endpoint's transport.  Plain data: copy it freely, it needs no release. */
typedef struct opal_remote_key {
  uint64_t opaque[32];
} opal_remote_key_t;
/* Errors: protocol (garbled), unreachable (no handle for the transport in use), busy (not connected yet). */
OPAL_API opal_status_t opal_unpack_key(const opal_endpoint_t* peer, const void* key, size_t size,
                                       opal_remote_key_t* unpacked) OPAL_NOEXCEPT;

/* [remote_address, +size) may be any part of what the key registered; outside, that operation fails and nothing is
 * written.  A completed put is visible at the target.  The local buffer belongs to the operation until it has ended. */
OPAL_API opal_status_t opal_put(opal_endpoint_t* to, const void* source, uint64_t remote_address,
                                const opal_remote_key_t* key, uint64_t size,
                                opal_completion_t* completion) OPAL_NOEXCEPT;
OPAL_API opal_status_t opal_get(opal_endpoint_t* to, void* destination, uint64_t remote_address,
                                const opal_remote_key_t* key, uint64_t size,
                                opal_completion_t* completion) OPAL_NOEXCEPT;

enum {
  OPAL_ADD = 0,
  OPAL_AND = 1,
  OPAL_OR = 2,
  OPAL_XOR = 3,
  OPAL_SWAP = 4,
  OPAL_MIN = 5,
  OPAL_MAX = 6,
  OPAL_COMPARE_SWAP = 7
};
enum { OPAL_I32 = 0, OPAL_U32 = 1, OPAL_I64 = 2, OPAL_U64 = 3, OPAL_F32 = 4, OPAL_F64 = 5 };

/* Values as 64-bit patterns (32-bit types in the low half).  `operand` is the new value of OPAL_SWAP and
 * OPAL_COMPARE_SWAP; only the latter uses `compare`.  OPAL_AND, OPAL_OR and OPAL_XOR take integers only.
 * remote_address is a multiple of the type's size.  `result` receives the old value by the time of the completion; NULL
 * if not wanted. */
OPAL_API opal_status_t opal_atomic(opal_endpoint_t* to, int op, int type, uint64_t remote_address,
                                   const opal_remote_key_t* key, uint64_t operand, uint64_t compare, uint64_t* result,
                                   opal_completion_t* completion) OPAL_NOEXCEPT;
/* Completes when every put and atomic posted before on `to` is visible there. */
OPAL_API opal_status_t opal_flush(opal_endpoint_t* to, opal_completion_t* completion) OPAL_NOEXCEPT;
/* The same for every endpoint of the context. */
OPAL_API opal_status_t opal_flush_all(opal_context_t* context, opal_completion_t* completion) OPAL_NOEXCEPT;

/* As opal_put, opal_get and opal_atomic, but an operation that the transport cannot take waits, and progress posts it,
 * in the order of posting.  Errors: limit_reached (am_pending_limit bytes of operations wait at this peer; each counts
 * about 360 bytes). */
OPAL_API opal_status_t opal_put_or_queue(opal_endpoint_t* to, const void* source, uint64_t remote_address,
                                         const opal_remote_key_t* key, uint64_t size,
                                         opal_completion_t* completion) OPAL_NOEXCEPT;
OPAL_API opal_status_t opal_get_or_queue(opal_endpoint_t* to, void* destination, uint64_t remote_address,
                                         const opal_remote_key_t* key, uint64_t size,
                                         opal_completion_t* completion) OPAL_NOEXCEPT;
OPAL_API opal_status_t opal_atomic_or_queue(opal_endpoint_t* to, int op, int type, uint64_t remote_address,
                                            const opal_remote_key_t* key, uint64_t operand, uint64_t compare,
                                            uint64_t* result, opal_completion_t* completion) OPAL_NOEXCEPT;
/* opal_put_or_queue, and a message of `tag` with `header` once the data is visible at the target: its handler finds the
 * data.  `header` is copied and at most opal_endpoint_max_send bytes.  Completes when the message is sent or queued. */
OPAL_API opal_status_t opal_put_notify(opal_endpoint_t* to, const void* source, uint64_t remote_address,
                                       const opal_remote_key_t* key, uint64_t size, uint16_t tag, const void* header,
                                       size_t header_size, opal_completion_t* completion) OPAL_NOEXCEPT;

/* 1: buffers of messages, put and get, and what is registered, may be GPU memory; 0: there is no CUDA driver here, or
 * gpu_use is off.  Known once a context is open.  From any thread. */
OPAL_API int opal_query_cuda_support(void) OPAL_NOEXCEPT;

/* ---- Completion counters and queues --------------------------------------------------------------------------- */

/* Counts operations that have ended.  Destroy it when its operations have ended, and before the context.
 *   opal_counter_attach(counter, &completion[i]);
 *   opal_counter_count(counter, opal_put_or_queue(..., &completion[i]));
 *   opal_counter_wait(counter, operations, -1); */
typedef struct opal_counter opal_counter_t;
OPAL_API opal_status_t opal_counter_create(opal_context_t* context, opal_counter_t** counter) OPAL_NOEXCEPT;
/* NULL is allowed. */
OPAL_API void opal_counter_destroy(opal_counter_t* counter) OPAL_NOEXCEPT;
/* Sets fn and user of a completion, so that its operation counts. */
OPAL_API void opal_counter_attach(opal_counter_t* counter, opal_completion_t* completion) OPAL_NOEXCEPT;
/* To be called with what a post of such a completion returned: OPAL_DONE and errors count as ended.  Returns it. */
OPAL_API opal_status_t opal_counter_count(opal_counter_t* counter, opal_status_t posted) OPAL_NOEXCEPT;
OPAL_API uint64_t opal_counter_ended(const opal_counter_t* counter) OPAL_NOEXCEPT;    /* with or without an error */
OPAL_API uint64_t opal_counter_failures(const opal_counter_t* counter) OPAL_NOEXCEPT; /* with an error */
/* Makes progress until `count` operations have ended since opal_counter_create, at most for `timeout_ms` (negative: for
 * ever).  Not from a callback.  Errors: timed_out, that of the first operation that failed. */
OPAL_API opal_status_t opal_counter_wait(opal_counter_t* counter, uint64_t count, int timeout_ms) OPAL_NOEXCEPT;

/* Collects operations that have ended, each with a pointer of the program.  `capacity` bounds those in flight and not
 * yet polled.  Destroy it when its operations have ended, and before the context.
 *   opal_completion_t* end = opal_queue_take(queue, request);      NULL: full, poll
 *   opal_queue_settle(queue, end, opal_get(..., end));
 *   opal_queue_wait(queue, entries, count, -1); */
typedef struct opal_queue opal_queue_t;
typedef struct opal_queue_entry {
  void* user;
  opal_status_t status; /* OPAL_OK or why it failed */
  int32_t reserved;
} opal_queue_entry_t;
OPAL_API opal_status_t opal_queue_create(opal_context_t* context, size_t capacity, opal_queue_t** queue) OPAL_NOEXCEPT;
/* NULL is allowed. */
OPAL_API void opal_queue_destroy(opal_queue_t* queue) OPAL_NOEXCEPT;
/* A completion for one operation; NULL: the queue is full. */
OPAL_API opal_completion_t* opal_queue_take(opal_queue_t* queue, void* user) OPAL_NOEXCEPT;
/* To be called with what every post of a completion of opal_queue_take returned.  Returns OPAL_QUEUED: there will be
 * one entry, also for OPAL_DONE and for an error; or OPAL_AGAIN: there is none, and the queue has the completion. */
OPAL_API opal_status_t opal_queue_settle(opal_queue_t* queue, opal_completion_t* completion,
                                         opal_status_t posted) OPAL_NOEXCEPT;
/* Takes at most `count` entries, and at most 64, oldest first; returns their number.  Makes no progress. */
OPAL_API size_t opal_queue_poll(opal_queue_t* queue, opal_queue_entry_t* entries, size_t count) OPAL_NOEXCEPT;
/* Makes progress until there is an entry, at most for `timeout_ms` (negative: for ever); then as opal_queue_poll. */
OPAL_API size_t opal_queue_wait(opal_queue_t* queue, opal_queue_entry_t* entries, size_t count,
                                int timeout_ms) OPAL_NOEXCEPT;

/* ---- Registration caches -------------------------------------------------------------------------------------- */

typedef struct opal_cache_statistics {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t hits;
  uint64_t misses;        /* a device or the driver had to be asked */
  uint64_t evictions;     /* given up to make room */
  uint64_t invalidations; /* their memory went away, all or in part */
  uint64_t failures;      /* requests that were refused */
  uint64_t registered;    /* registrations now, in use or not */
  uint64_t registered_bytes;
  uint64_t idle; /* of those, kept for later use only */
  uint64_t idle_bytes;
} opal_cache_statistics_t;
/* What the caches of a context have counted.  `local`: registrations of this process's memory; `remote`: mappings of
 * peers' GPU memory.  Either may be NULL; set them up with OPAL_INIT.  Errors: invalid_argument. */
OPAL_API opal_status_t opal_registration_statistics(opal_context_t* context, opal_cache_statistics_t* local,
                                                    opal_cache_statistics_t* remote) OPAL_NOEXCEPT;

/* ---- Checkpoints ---------------------------------------------------------------------------------------------- */

/* For a runtime that writes an image of all processes and goes on, or restarts from it.  All contexts that are
 * connected take part:
 *   1. opal_context_quiesce with the same `round`, a number higher than that of any earlier checkpoint.  Messages
 * posted from now on wait; one-sided operations and large messages do not, so complete them first.
 *   2. Call opal_context_progress and opal_context_quiet in turn, at every context, until it has returned 1 at all.
 *   3. opal_context_checkpoint empties the registration caches, which refuse new entries until step 5, and unmaps
 * peers' GPU memory.  Regions stay.
 *   4. Write the image.  Only in a process that was restored from one: opal_context_restart, then opal_connect to the
 *      peers' new addresses.
 *   5. opal_context_resume; at any step also to abandon the checkpoint. */
OPAL_API opal_status_t opal_context_quiesce(opal_context_t* context, uint64_t round) OPAL_NOEXCEPT;
OPAL_API int opal_context_quiet(opal_context_t* context) OPAL_NOEXCEPT;
/* Errors: busy (not quiet, or memory that was registered through a cache is in use: try again). */
OPAL_API opal_status_t opal_context_checkpoint(opal_context_t* context) OPAL_NOEXCEPT;
/* Opens the transports anew: opal_context_address, keys and opal_fd change, opal_listen is gone; endpoints, handlers
 * and queued messages stay.  Errors: busy (no opal_context_checkpoint, or inside a callback), those of
 * opal_context_open. */
OPAL_API opal_status_t opal_context_restart(opal_context_t* context) OPAL_NOEXCEPT;
OPAL_API void opal_context_resume(opal_context_t* context) OPAL_NOEXCEPT;

/* ---- Batches -------------------------------------------------------------------------------------------------- */

/* Until opal_batch_end the transports may hold back what is posted, to give several requests to the network with one
 * call: for many short messages in a row.  Order stays.  opal_batch_end, opal_context_progress and the waits send what
 * is held back; the peer waits for it, so end the batch at once.  Calls nest. */
OPAL_API void opal_batch_begin(opal_context_t* context) OPAL_NOEXCEPT;
OPAL_API void opal_batch_end(opal_context_t* context) OPAL_NOEXCEPT;

/* ---- Progress and waiting ------------------------------------------------------------------------------------- */

/* Runs handlers and completions; returns the number of events.  0: idle, or, with OPAL_THREAD_MULTIPLE, another thread
 * makes progress. */
OPAL_API size_t opal_context_progress(opal_context_t* context) OPAL_NOEXCEPT;
/* Progresses, then sleeps until something happens or the time is over (negative: for ever); returns what
 * opal_context_progress does.  With OPAL_THREAD_MULTIPLE another thread's progress may bring what you wait for: use
 * opal_wait_until there. */
OPAL_API size_t opal_wait(opal_context_t* context, int timeout_ms) OPAL_NOEXCEPT;
/* Waits until condition(user) is not 0 or the time is over; returns 1 if it held, 0 if not.  No handler runs while the
 * condition is evaluated, so it may read what handlers write; a change that a handler makes is never missed. */
OPAL_API int opal_wait_until(opal_context_t* context, int (*condition)(void* user), void* user,
                             int timeout_ms) OPAL_NOEXCEPT;
/* For an event loop of your own: if opal_arm returns 1, poll opal_fd for reading; if it returns 0, there is work: call
 * opal_context_progress. */
OPAL_API int opal_fd(const opal_context_t* context) OPAL_NOEXCEPT;
OPAL_API int opal_arm(opal_context_t* context) OPAL_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* OPAL_H */
