// SPDX-License-Identifier: Apache-2.0
// Whether a device moves the right bytes through an explicit on-demand region, with libibverbs alone: two queue pairs
// in one process, one side pinned, the other on demand, writes and reads in both directions.  For a guest:
//   tests/vm/run --kernel odp -- build/tests/verbs_on_demand [pinned]
// `pinned`: both sides are, as a control.  Status 0: all right, 1: wrong bytes, 77: the device has no on-demand paging.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t kSize = 1 << 20;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

template <class T>
T must(T value, const char* what) {
  if (value) return value;
  std::perror(what);
  std::exit(2);
}

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_cq* queue = nullptr;
  ibv_qp* pair[2] = {};
  ibv_gid gid{};
  std::uint8_t gid_index = 0;

  void open() {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    must(list != nullptr && count != 0, "no device");
    context = must(ibv_open_device(list[0]), "ibv_open_device");
    domain = must(ibv_alloc_pd(context), "ibv_alloc_pd");
    queue = must(ibv_create_cq(context, 64, nullptr, nullptr, 0), "ibv_create_cq");
    for (std::uint8_t i = 0; i < 8; ++i) {  // of an IPv4 address
      ibv_gid one{};
      if (ibv_query_gid(context, 1, i, &one) != 0 || one.raw[10] != 0xff || one.raw[11] != 0xff) continue;
      gid = one;
      gid_index = i;
    }
    for (ibv_qp*& each : pair) {
      ibv_qp_init_attr initial{};
      initial.send_cq = initial.recv_cq = queue;
      initial.qp_type = IBV_QPT_RC;
      initial.cap = {16, 16, 1, 1, 0};
      each = must(ibv_create_qp(domain, &initial), "ibv_create_qp");
    }
    for (int i = 0; i < 2; ++i) join(pair[i], pair[1 - i]->qp_num);
  }

  void join(ibv_qp* from, std::uint32_t to) const {
    ibv_qp_attr to_init{};
    to_init.qp_state = IBV_QPS_INIT;
    to_init.port_num = 1;
    to_init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    must(ibv_modify_qp(from, &to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "ibv_modify_qp(init)");
    ibv_qp_attr ready{};
    ready.qp_state = IBV_QPS_RTR;
    ready.path_mtu = IBV_MTU_4096;
    ready.dest_qp_num = to;
    ready.max_dest_rd_atomic = 4;
    ready.min_rnr_timer = 12;
    ready.ah_attr.is_global = 1;
    ready.ah_attr.grh.dgid = gid;
    ready.ah_attr.grh.sgid_index = gid_index;
    ready.ah_attr.grh.hop_limit = 8;
    ready.ah_attr.port_num = 1;
    must(ibv_modify_qp(from, &ready,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
         "ibv_modify_qp(ready to receive)");
    ready.qp_state = IBV_QPS_RTS;
    ready.timeout = 14;
    ready.retry_cnt = ready.rnr_retry = 6;
    ready.max_rd_atomic = 4;
    must(ibv_modify_qp(from, &ready,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "ibv_modify_qp(ready to send)");
  }

  /// Ends the program when the device does not call it a success.
  void move(ibv_wr_opcode opcode, std::byte* local, std::uint32_t lkey, const std::byte* remote, std::uint32_t rkey,
            std::size_t size) const {
    ibv_sge piece{reinterpret_cast<std::uint64_t>(local), static_cast<std::uint32_t>(size), lkey};
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(remote);
    request.wr.rdma.rkey = rkey;
    ibv_send_wr* bad = nullptr;
    must(ibv_post_send(pair[0], &request, &bad) == 0, "ibv_post_send");
    ibv_wc end{};
    while (ibv_poll_cq(queue, 1, &end) == 0) ::usleep(100);
    if (end.status == IBV_WC_SUCCESS) return;
    std::printf("%s\n", ibv_wc_status_str(end.status));
    std::exit(1);
  }
};

std::byte* pages(std::byte* at = nullptr) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0);
  void* const made = ::mmap(at, kSize, PROT_READ | PROT_WRITE, flags, -1, 0);
  return static_cast<std::byte*>(must(made != MAP_FAILED ? made : nullptr, "mmap"));
}

struct Count {
  int right = 0;
  int wrong = 0;
};

/// Every direction between pinned memory and `size` bytes at `there`, which `region` covers.
void try_all(const Device& device, std::byte* pinned, const ibv_mr& pin, std::byte* there, const ibv_mr& region,
             std::size_t size, Count& count) {
  static unsigned seed = 0;
  for (const bool into : {true, false}) {
    for (const bool remote : {true, false}) {
      std::byte* const from = into ? pinned : there;
      std::byte* const to = into ? there : pinned;
      ++seed;
      for (std::size_t i = 0; i < size; ++i) from[i] = static_cast<std::byte>(seed * 37 + i * 7 + (i >> 8) * 13);
      const std::vector<std::byte> wanted(from, from + size);
      const ibv_wr_opcode opcode = into == remote ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
      if (remote) device.move(opcode, pinned, pin.lkey, there, region.rkey, size);
      if (!remote) device.move(opcode, there, region.lkey, pinned, pin.rkey, size);
      ++(std::equal(wanted.begin(), wanted.end(), to) ? count.right : count.wrong);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool control = argc > 1 && std::strcmp(argv[1], "pinned") == 0;
  Device device;
  device.open();
  ibv_device_attr_ex attributes{};
  must(ibv_query_device_ex(device.context, nullptr, &attributes) == 0, "ibv_query_device_ex");
  if (!control && (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) == 0) {
    std::puts("needs on-demand paging: the device has none");
    return 77;
  }
  const int access = kAccess;  // ibv_reg_mr is a macro that would combine two enumerations
  const int wanted = control ? kAccess : kAccess | IBV_ACCESS_ON_DEMAND;
  std::byte* const pinned = pages();
  const ibv_mr& pin = *must(ibv_reg_mr(device.domain, pinned, kSize, access), "ibv_reg_mr");
  std::byte* const memory = pages();
  constexpr std::array<std::size_t, 7> kSizes{1, 8, 100, 4096, 5000, 65536, 300000};
  constexpr std::array<std::size_t, 9> kOffsets{0, 8, 64, 100, 2048, 4095, 4096, 5000, 65560};
  bool all_right = true;
  const auto tell = [&](const char* what, std::size_t detail, const Count& count) {
    std::printf("%s %zu: %d right, %d wrong\n", what, detail, count.right, count.wrong);
    all_right = all_right && count.wrong == 0;
  };
  for (const std::size_t begin : {0, 8, 2048}) {
    ibv_mr* const region = must(ibv_reg_mr(device.domain, memory + begin, kSize / 2, wanted), "ibv_reg_mr");
    Count count;
    for (const std::size_t offset : kOffsets) {
      for (const std::size_t size : kSizes) {
        try_all(device, pinned, pin, memory + begin + offset, *region, size, count);
      }
    }
    tell("region that begins at page +", begin, count);
    ibv_dereg_mr(region);
  }
  if (!control) {  // a pinned region goes on holding the old pages
    const ibv_mr& region = *must(ibv_reg_mr(device.domain, memory, kSize, wanted), "ibv_reg_mr");
    for (const std::size_t offset : kOffsets) {
      Count count;
      for (int round = 0; round < 10; ++round) {
        pages(memory);
        try_all(device, pinned, pin, memory + offset, region, 65536, count);
      }
      tell("replaced memory, at page +", offset, count);
    }
  }
  return all_right ? 0 : 1;
}
