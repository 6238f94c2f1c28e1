// SPDX-License-Identifier: Apache-2.0
// libibverbs of the device double.
#include "tests/btl/verbs/device_double.hpp"

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "opal/core/system/mapping.hpp"
#include "tests/btl/verbs/device_double_state.hpp"

#undef ibv_query_port
#undef ibv_reg_mr

namespace opal::test::verbs_double {

struct Channel : ibv_comp_channel {
  Signal signal;
  std::deque<ibv_cq*> events;
};

struct Completions : ibv_cq {
  std::deque<ibv_wc> entries;
  bool armed = false;
};

struct Receive {
  std::uint64_t id;
  std::byte* to;
  std::uint32_t size;
};

struct Receives : ibv_srq {
  std::deque<Receive> posted;
  std::uint32_t limit = 0;
};

/// A work request with its own copy of the bytes to send.
struct Work {
  ibv_send_wr request{};
  std::vector<std::byte> bytes;  // gathered; of reads and atomics empty
  std::byte* local = nullptr;    // where reads and atomics write
  std::uint64_t size = 0;
};

struct Pair : ibv_qp {
  ibv_qp_state state = IBV_QPS_RESET;
  std::uint32_t peer = 0;  // number of its queue pair
  std::uint32_t depth = 0;
  std::uint32_t inlined = 0;
  std::uint64_t bytes = 0;  // see Counts::send_queue_bytes
  unsigned access = 0;
  ibv_ece extensions{0x1405, 6, 0};  // offered, and after ibv_set_ece() those of both sides
  bool extended = false;
  std::uint32_t used = 0;                  // requests whose place is not free yet
  std::uint32_t unsignalled = 0;           // of these, without a completion of their own so far
  std::deque<Work> waiting;                // for a receive buffer of the peer, in order
  std::deque<std::uint32_t> places_freed;  // by each completion that is not polled yet
};

struct Region : ibv_mr {
  unsigned access = 0;
  std::span<std::byte> file;   // of a dma-buf: the whole of it, mapped
  std::byte* bytes = nullptr;  // those at `addr`, which the processor cannot access there if they are a dma-buf's
};

Device& device() {
  static auto* const one = new Device;
  return *one;
}

namespace {

void add_completion(ibv_cq* queue, const ibv_wc& entry) {
  auto& completions = *static_cast<Completions*>(queue);
  completions.entries.push_back(entry);
  if (!completions.armed || queue->channel == nullptr) return;
  completions.armed = false;
  auto& channel = *static_cast<Channel*>(queue->channel);
  channel.events.push_back(queue);
  channel.signal.set(true);
}

void complete(Pair& pair, const Work& work, ibv_wc_status status) {
  ++pair.unsignalled;
  const bool silent = status == IBV_WC_SUCCESS || status == IBV_WC_WR_FLUSH_ERR;
  if ((work.request.send_flags & IBV_SEND_SIGNALED) == 0 && silent) return;
  pair.places_freed.push_back(std::exchange(pair.unsignalled, 0));
  ibv_wc entry{};
  entry.wr_id = work.request.wr_id;
  entry.status = status;
  entry.qp_num = pair.qp_num;
  entry.opcode = work.request.opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
  add_completion(pair.send_cq, entry);
}

void flush(Pair& pair) {
  pair.state = IBV_QPS_ERR;
  while (!pair.waiting.empty()) {
    complete(pair, pair.waiting.front(), IBV_WC_WR_FLUSH_ERR);
    pair.waiting.pop_front();
  }
}

/// The bytes at the address; null: the key does not allow it.
std::byte* allowed(std::uint32_t key, std::uint64_t address, std::uint64_t size, unsigned access) {
  const auto found = device().regions.find(key);
  if (found == device().regions.end()) return nullptr;
  const Region& region = *found->second;
  const std::uint64_t offset = address - reinterpret_cast<std::uint64_t>(region.addr);
  const bool inside = offset <= region.length && size <= region.length - offset;
  return inside && (region.access & access) == access ? region.bytes + offset : nullptr;
}

Region& add_region(ibv_pd& domain, std::byte* bytes, void* address, std::size_t size, unsigned access) {
  auto* const region = new Region;
  static_cast<ibv_mr&>(*region) = {domain.context, &domain, address, size, 0, 0, 0};
  region->lkey = region->rkey = ++device().next;
  region->access = access;
  region->bytes = bytes;
  device().regions[region->rkey] = region;
  device().counts.registered_bytes += size;
  if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0) device().counts.relaxed_bytes += size;
  return *region;
}

std::uint64_t atomic(const ibv_send_wr& request) {
  auto* const word = reinterpret_cast<std::uint64_t*>(request.wr.atomic.remote_addr);
  if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    return __atomic_fetch_add(word, request.wr.atomic.compare_add, __ATOMIC_SEQ_CST);
  }
  std::uint64_t expected = request.wr.atomic.compare_add;
  __atomic_compare_exchange_n(word, &expected, request.wr.atomic.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}

ibv_wc_status send(Pair& peer, const Work& work) {
  auto& receives = *static_cast<Receives*>(peer.srq);
  const Receive receive = receives.posted.front();
  receives.posted.pop_front();
  ibv_wc entry{};
  entry.wr_id = receive.id;
  entry.qp_num = peer.qp_num;
  entry.opcode = IBV_WC_RECV;
  const bool fits = work.bytes.size() <= receive.size;
  entry.status = fits ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
  entry.byte_len = static_cast<std::uint32_t>(work.bytes.size());
  if (fits) std::copy(work.bytes.begin(), work.bytes.end(), receive.to);
  add_completion(peer.recv_cq, entry);
  return fits ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR;
}

ibv_wc_status access_memory(const Pair& peer, const Work& work) {
  const ibv_send_wr& request = work.request;
  const bool is_atomic = request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  const unsigned access = is_atomic                             ? IBV_ACCESS_REMOTE_ATOMIC
                          : request.opcode == IBV_WR_RDMA_WRITE ? IBV_ACCESS_REMOTE_WRITE
                                                                : IBV_ACCESS_REMOTE_READ;
  const std::uint64_t address = is_atomic ? request.wr.atomic.remote_addr : request.wr.rdma.remote_addr;
  const std::uint32_t key = is_atomic ? request.wr.atomic.rkey : request.wr.rdma.rkey;
  std::byte* const bytes = allowed(key, address, work.size, access);
  if ((peer.access & access) != access || bytes == nullptr) return IBV_WC_REM_ACCESS_ERR;
  if (is_atomic) {
    const std::uint64_t before = atomic(request);
    std::memcpy(work.local, &before, sizeof before);
  } else if (access == IBV_ACCESS_REMOTE_WRITE) {
    std::copy(work.bytes.begin(), work.bytes.end(), bytes);
  } else {
    std::copy_n(bytes, work.size, work.local);
  }
  return IBV_WC_SUCCESS;
}

/// False: the peer has no receive buffer.
bool execute(Pair& pair, const Work& work) {
  const auto found = device().pairs.find(pair.peer);
  ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;
  if (pair.state == IBV_QPS_ERR) {
    status = IBV_WC_WR_FLUSH_ERR;
  } else if (found != device().pairs.end() && found->second->state >= IBV_QPS_RTR &&
             found->second->state != IBV_QPS_ERR) {
    Pair& peer = *found->second;
    const bool message = work.request.opcode == IBV_WR_SEND;
    if (message && static_cast<Receives*>(peer.srq)->posted.empty()) return false;
    status = message ? send(peer, work) : access_memory(peer, work);
  }
  complete(pair, work, status);
  if (status != IBV_WC_SUCCESS) flush(pair);
  return true;
}

void run_waiting() {
  for (const auto& [number, pair] : device().pairs) {
    while (!pair->waiting.empty()) {
      const Work work = pair->waiting.front();
      pair->waiting.pop_front();
      if (execute(*pair, work)) continue;
      pair->waiting.push_front(work);
      break;
    }
  }
}

int post_send(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) {
  const Locked locked;
  auto& pair = *static_cast<Pair*>(qp);
  ++device().counts.doorbells;
  for (ibv_send_wr* request = list; request != nullptr; request = request->next) {
    *bad = request;
    if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) return EINVAL;
    if (pair.used == pair.depth) return ENOMEM;
    Work work;
    work.request = *request;
    const bool inlined = (request->send_flags & IBV_SEND_INLINE) != 0;
    const bool reads = request->opcode != IBV_WR_SEND && request->opcode != IBV_WR_RDMA_WRITE;
    for (int i = 0; i < request->num_sge; ++i) {
      const ibv_sge& piece = request->sg_list[i];
      if (!inlined && allowed(piece.lkey, piece.addr, piece.length, reads ? IBV_ACCESS_LOCAL_WRITE : 0) == nullptr) {
        return EFAULT;
      }
      const auto* const from = reinterpret_cast<const std::byte*>(piece.addr);
      if (reads) {
        work.local = reinterpret_cast<std::byte*>(piece.addr);
      } else {
        work.bytes.insert(work.bytes.end(), from, from + piece.length);
      }
      work.size += piece.length;
    }
    if (inlined && work.size > pair.inlined) return EINVAL;
    ++device().counts.work_requests;
    ++pair.used;
    if (!pair.waiting.empty() || !execute(pair, work)) {
      ++device().counts.receiver_waits;
      pair.waiting.push_back(std::move(work));
    }
  }
  *bad = nullptr;
  return 0;
}

int poll(ibv_cq* queue, int most, ibv_wc* entries) {
  const Locked locked;
  auto& completions = *static_cast<Completions*>(queue);
  int count = 0;
  for (; count < most && !completions.entries.empty(); ++count) {
    const ibv_wc entry = entries[count] = completions.entries.front();
    completions.entries.pop_front();
    if (entry.opcode == IBV_WC_RECV) continue;
    ++device().counts.send_completions;
    const auto found = device().pairs.find(entry.qp_num);
    if (found == device().pairs.end()) continue;
    found->second->used -= found->second->places_freed.front();
    found->second->places_freed.pop_front();
  }
  return count;
}

int arm(ibv_cq* queue, int /*solicited_only*/) {
  const Locked locked;
  static_cast<Completions*>(queue)->armed = true;
  return 0;
}

int post_receive(ibv_srq* queue, ibv_recv_wr* list, ibv_recv_wr** bad) {
  const Locked locked;
  auto& receives = *static_cast<Receives*>(queue);
  for (ibv_recv_wr* request = list; request != nullptr; request = request->next) {
    *bad = request;
    if (receives.posted.size() == receives.limit) return ENOMEM;
    const ibv_sge& piece = request->sg_list[0];
    if (!allowed(piece.lkey, piece.addr, piece.length, IBV_ACCESS_LOCAL_WRITE)) return EFAULT;
    receives.posted.push_back({request->wr_id, reinterpret_cast<std::byte*>(piece.addr), piece.length});
  }
  run_waiting();
  return 0;
}

/// The size of a send queue in mlx5: slots of 64 bytes, as many as the largest request needs, a power of two in all.
std::uint64_t queue_bytes(const ibv_qp_cap& cap) {
  const std::uint64_t pieces = std::uint64_t{cap.max_send_sge} * 16;
  const std::uint64_t inlined = cap.max_inline_data == 0 ? 0 : (cap.max_inline_data + 4 + 15) / 16 * 16;
  const std::uint64_t one = (16 + std::max(pieces, inlined) + 63) / 64 * 64;
  return std::bit_ceil(one * cap.max_send_wr);
}

}  // namespace

Counts counts() noexcept {
  const Locked locked;
  return device().counts;
}

void fail_queue_pairs() noexcept {
  const Locked locked;
  for (const auto& [number, pair] : device().pairs) flush(*pair);
}

void report_port_error() noexcept {
  const Locked locked;
  device().port_error = true;
}

}  // namespace opal::test::verbs_double

using namespace opal::test::verbs_double;  // NOLINT(google-build-using-namespace): the C functions below are its
                                           // outside

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
#pragma GCC visibility push(default)  // libopal finds them in the program
extern "C" {

// ---- libibverbs -------------------------------------------------------------------------------------------------

ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { &device().device, nullptr };
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
const char* ibv_get_device_name(ibv_device*) { return kName; }

ibv_context* ibv_open_device(ibv_device* opened) {
  auto* const context = new ibv_context{};
  context->device = opened;
  context->ops.post_send = &post_send;
  context->ops.poll_cq = &poll;
  context->ops.req_notify_cq = &arm;
  context->ops.post_srq_recv = &post_receive;
  context->async_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return context;
}
int ibv_close_device(ibv_context* context) {
  ::close(context->async_fd);
  delete context;
  return 0;
}

int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->max_qp_wr = attributes->max_srq_wr = 16384;
  attributes->max_cqe = 1 << 20;
  attributes->max_sge = 8;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 16;
  attributes->max_mr_size = ~std::uint64_t{0};
  attributes->atomic_cap = IBV_ATOMIC_GLOB;
  return 0;
}
int ibv_query_port(ibv_context*, std::uint8_t, _compat_ibv_port_attr* compat) {
  auto* const attributes = reinterpret_cast<ibv_port_attr*>(compat);
  attributes->state = IBV_PORT_ACTIVE;
  attributes->max_msg_sz = 1U << 30;
  return 0;
}
int ibv_query_gid(ibv_context*, std::uint8_t, int, ibv_gid* gid) {
  *gid = {};
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) { return new ibv_pd{context, 0}; }
int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* base, std::size_t size, std::uint64_t, unsigned access) {
  const Locked locked;
  unsigned char resident = 0;
  const auto page = reinterpret_cast<std::uintptr_t>(base) & ~(opal::base_page_size() - 1);
  if (::mincore(reinterpret_cast<void*>(page), 1, &resident) != 0) {  // unmapped
    errno = EFAULT;
    return nullptr;
  }
  return &add_region(*domain, static_cast<std::byte*>(base), base, size, access);
}
/// The file's position is where the range of the dma-buf begins, as the driver double of CUDA makes it.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t size, std::uint64_t address, int fd,
                          int access) {
  const Locked locked;
  const auto begin = static_cast<std::uint64_t>(::lseek(fd, 0, SEEK_CUR)) + offset;
  const auto length = static_cast<std::size_t>(::lseek(fd, 0, SEEK_END));
  void* const mapped = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const std::span<std::byte> file{static_cast<std::byte*>(mapped), length};
  Region& region = add_region(*domain, file.data() + begin, reinterpret_cast<void*>(address), size, access);
  region.file = file;
  return &region;
}
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* base, std::size_t size, int access) {
  return ibv_reg_mr_iova2(domain, base, size, 0, static_cast<unsigned>(access));
}
int ibv_dereg_mr(ibv_mr* region) {
  const Locked locked;
  device().regions.erase(region->rkey);
  device().counts.registered_bytes -= region->length;
  const auto* const own = static_cast<Region*>(region);
  if ((own->access & IBV_ACCESS_RELAXED_ORDERING) != 0) device().counts.relaxed_bytes -= region->length;
  if (!own->file.empty()) ::munmap(own->file.data(), own->file.size());
  delete own;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* const channel = new Channel;
  channel->context = context;
  channel->fd = channel->signal.fd();
  channel->refcnt = 0;
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  delete static_cast<Channel*>(channel);
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel* from, ibv_cq** queue, void** context) {
  const Locked locked;
  *context = nullptr;
  return take_event(*static_cast<Channel*>(from), *queue);
}
void ibv_ack_cq_events(ibv_cq*, unsigned) {}
int ibv_get_async_event(ibv_context*, ibv_async_event* event) {
  const Locked locked;
  if (!std::exchange(device().port_error, false)) {
    errno = EAGAIN;
    return -1;
  }
  event->event_type = IBV_EVENT_PORT_ERR;
  event->element.port_num = 1;
  return 0;
}
void ibv_ack_async_event(ibv_async_event*) {}

ibv_cq* ibv_create_cq(ibv_context* context, int depth, void*, ibv_comp_channel* channel, int) {
  auto* const queue = new Completions;
  static_cast<ibv_cq&>(*queue) = {};
  queue->context = context;
  queue->channel = channel;
  queue->cqe = depth;
  return queue;
}
int ibv_resize_cq(ibv_cq* queue, int depth) {
  queue->cqe = depth;
  return 0;
}
int ibv_destroy_cq(ibv_cq* queue) {
  delete static_cast<Completions*>(queue);
  return 0;
}

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* attributes) {
  auto* const queue = new Receives;
  static_cast<ibv_srq&>(*queue) = {};
  queue->context = domain->context;
  queue->limit = attributes->attr.max_wr;
  return queue;
}
int ibv_destroy_srq(ibv_srq* queue) {
  delete static_cast<Receives*>(queue);
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  const Locked locked;
  auto* const pair = new Pair;
  static_cast<ibv_qp&>(*pair) = {};
  pair->context = domain->context;
  pair->send_cq = attributes->send_cq;
  pair->recv_cq = attributes->recv_cq;
  pair->srq = attributes->srq;
  pair->qp_num = ++device().next;
  pair->depth = attributes->cap.max_send_wr;
  pair->inlined = attributes->cap.max_inline_data;
  pair->bytes = queue_bytes(attributes->cap);
  device().counts.send_queue_bytes += pair->bytes;
  device().pairs[pair->qp_num] = pair;
  return pair;
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  const Locked locked;
  auto& pair = *static_cast<Pair*>(qp);
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) pair.access = attributes->qp_access_flags;
  if ((mask & IBV_QP_DEST_QPN) != 0) pair.peer = attributes->dest_qp_num;
  if ((mask & IBV_QP_STATE) == 0) return 0;
  pair.state = attributes->qp_state;
  if (pair.state == IBV_QPS_RTR && pair.extended) ++device().counts.extended_pairs;
  if (pair.state == IBV_QPS_ERR) flush(pair);
  return 0;
}
int ibv_query_ece(ibv_qp* qp, ibv_ece* extensions) {
  const Locked locked;
  *extensions = static_cast<Pair*>(qp)->extensions;
  return 0;
}
int ibv_set_ece(ibv_qp* qp, ibv_ece* extensions) {
  const Locked locked;
  auto& pair = *static_cast<Pair*>(qp);
  if (extensions->vendor_id != pair.extensions.vendor_id || pair.state >= IBV_QPS_RTR) return EINVAL;
  extensions->options &= pair.extensions.options;
  pair.extensions = *extensions;
  pair.extended = extensions->options != 0;
  return 0;
}
int ibv_query_qp(ibv_qp*, ibv_qp_attr* attributes, int, ibv_qp_init_attr*) {
  attributes->path_mtu = IBV_MTU_4096;
  return 0;
}
int ibv_destroy_qp(ibv_qp* qp) {
  const Locked locked;
  auto* const pair = static_cast<Pair*>(qp);
  for (ibv_cq* const queue : {pair->send_cq, pair->recv_cq}) {
    std::erase_if(static_cast<Completions*>(queue)->entries,
                  [&](const ibv_wc& entry) { return entry.qp_num == pair->qp_num && entry.opcode != IBV_WC_RECV; });
  }
  device().pairs.erase(pair->qp_num);
  device().counts.send_queue_bytes -= pair->bytes;
  delete pair;
  return 0;
}
const char* ibv_wc_status_str(ibv_wc_status status) { return status == IBV_WC_SUCCESS ? "success" : "failure"; }
const char* ibv_event_type_str(ibv_event_type) { return "event"; }

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
