// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/op/op.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "mpi_shim/handle/table.hpp"

namespace mpi_shim::op {

using datatype::Cursor;
using datatype::Datatype;
using datatype::Element;
using datatype::ElementClass;
using datatype::ElementInfo;

Op::Op(std::uintptr_t handle, const char* name, OpKind kind) noexcept
    : Object(kKind, handle), kind_(kind), commutes_(kind != OpKind::replace), name_(name) {}

Op::Op(UserFunction* function, bool commutes) noexcept
    : Object(kKind), kind_(OpKind::user), commutes_(commutes), name_("user-defined"), function_(function) {}

Op::Op(LargeUserFunction* function, bool commutes) noexcept
    : Object(kKind), kind_(OpKind::user), commutes_(commutes), name_("user-defined"), large_function_(function) {}

bool Op::reduces(const Datatype& type) const noexcept {
  if (kind_ == OpKind::user) return true;
  if (kind_ == OpKind::replace || kind_ == OpKind::no_op) return false;
  return type.element().has_value() && find_kernel(kind_, *type.element()) != nullptr;
}

void Op::apply(const void* in, void* inout, std::int64_t count, const Datatype& type) const {
  if (count <= 0) return;
  if (kind_ != OpKind::user) {
    find_kernel(kind_, *type.element())(in, inout, count);
    return;
  }
  auto* handle = handle::to_handle<MPI_ABI_Datatype*>(type);
  datatype::DatatypeRef copy;
  if (type.magic() != Datatype::live_magic(Datatype::kKind)) {  // the program has freed the handle meanwhile
    if (auto made = type.copy()) copy = std::move(*made), handle = handle::to_handle<MPI_ABI_Datatype*>(*copy);
  }
  void* input = const_cast<void*>(in);  // the prototype of the standard has no const; the function only reads it
  if (large_function_ != nullptr) {
    large_function_(input, inout, &count, &handle);
    return;
  }
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const auto distance = [&](std::int64_t done) { return static_cast<std::uintptr_t>(done * type.extent()); };
  for (std::int64_t done = 0; done < count;) {
    int part = static_cast<int>(std::min(kMost, count - done));
    auto* from = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(input) + distance(done));
    auto* to = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(inout) + distance(done));
    done += part;  // before the call, which gets the address of `part`
    function_(from, to, &part, &handle);
  }
}

bool accumulates(OpKind kind, const Datatype& type) noexcept {
  const auto element = type.signature().uniform;
  return element.has_value() && find_kernel(kind, *element) != nullptr;
}

namespace {

// Combines one packed pair.  A packed pair has no gap between value and index, but the kernels expect the layout in
// memory.
void combine_pair(Kernel kernel, const ElementInfo& pair, const std::byte* in, std::byte* inout) noexcept {
  const std::size_t value_bytes = info(pair.first).size;
  std::array<std::byte, 64> a{};
  std::array<std::byte, 64> b{};
  std::memcpy(a.data(), in, value_bytes);
  std::memcpy(a.data() + pair.second_offset, in + value_bytes, pair.size - value_bytes);
  std::memcpy(b.data(), inout, value_bytes);
  std::memcpy(b.data() + pair.second_offset, inout + value_bytes, pair.size - value_bytes);
  kernel(a.data(), b.data(), 1);
  std::memcpy(inout, b.data(), value_bytes);
  std::memcpy(inout + value_bytes, b.data() + pair.second_offset, pair.size - value_bytes);
}

// Made on first use.  Destroying an Op has no effect, so calls from exit handlers are safe.
std::array<Op, 14>& ops() noexcept {
  static std::array<Op, 14> made{{{0x21, "MPI_SUM", OpKind::sum},
                                  {0x22, "MPI_MIN", OpKind::min},
                                  {0x23, "MPI_MAX", OpKind::max},
                                  {0x24, "MPI_PROD", OpKind::prod},
                                  {0x28, "MPI_BAND", OpKind::band},
                                  {0x29, "MPI_BOR", OpKind::bor},
                                  {0x2a, "MPI_BXOR", OpKind::bxor},
                                  {0x30, "MPI_LAND", OpKind::land},
                                  {0x31, "MPI_LOR", OpKind::lor},
                                  {0x32, "MPI_LXOR", OpKind::lxor},
                                  {0x38, "MPI_MINLOC", OpKind::minloc},
                                  {0x39, "MPI_MAXLOC", OpKind::maxloc},
                                  {0x3c, "MPI_REPLACE", OpKind::replace},
                                  {0x3d, "MPI_NO_OP", OpKind::no_op}}};
  return made;
}

}  // namespace

bool accumulate(OpKind kind, Element element, opal::ByteSpan elements, Cursor& target,
                std::vector<std::byte>& scratch) {
  const ElementInfo& facts = info(element);
  const Kernel kernel = find_kernel(kind, element);
  if (kernel == nullptr || elements.size() % facts.size != 0) return false;
  if (elements.size() > static_cast<std::size_t>(target.remaining())) return false;
  if (kind == OpKind::replace) {
    target.unpack(elements);
  } else if (target.on_gpu() || facts.element_class == ElementClass::pair) {
    // On a packed copy.  For pairs, too: the kernel would write a whole pair, with the gap, which may hold other data
    // of the application.
    const std::int64_t start = target.position();
    scratch.resize(elements.size());
    target.pack(scratch);
    combine_packed(kind, element, elements, scratch);
    target.seek(start);
    target.unpack(scratch);
  } else {
    // Pieces are whole elements, since elements are contiguous and all alike; of a wrong message the parts are skipped.
    while (!elements.empty()) {
      const datatype::Piece piece = target.next_piece(elements.size());
      kernel(elements.data(), piece.data, static_cast<std::int64_t>(piece.bytes / facts.size));
      elements = elements.subspan(piece.bytes);
    }
  }
  return true;
}

void combine_packed(OpKind kind, Element element, opal::ByteSpan in, opal::MutableBytes inout) noexcept {
  const ElementInfo& facts = info(element);
  if (kind == OpKind::replace) {  // not the kernel, which expects pairs in their layout in memory
    std::memcpy(inout.data(), in.data(), in.size());
  } else if (facts.element_class == ElementClass::pair && kind != OpKind::no_op) {
    const Kernel kernel = find_kernel(kind, element);
    for (std::size_t at = 0; at < in.size(); at += facts.size) {
      combine_pair(kernel, facts, in.data() + at, inout.data() + at);
    }
  } else {
    find_kernel(kind, element)(in.data(), inout.data(), static_cast<std::int64_t>(in.size() / facts.size));
  }
}

Op* predefined(std::uintptr_t handle) {
  const auto found = std::find_if(ops().begin(), ops().end(), [&](const Op& op) { return op.handle() == handle; });
  return found != ops().end() ? found : nullptr;
}

void publish_predefined_ops() {
  for (Op& op : ops()) handle::set_builtin(op);
}

}  // namespace mpi_shim::op
