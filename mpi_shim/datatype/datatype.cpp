// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/datatype.hpp"

#include "mpi_shim/datatype/signature.hpp"

namespace mpi_shim::datatype {
namespace {

Bounds element_bounds(Element element) {
  const ElementInfo& facts = info(element);
  // The data of a pair ends with its index; padding after the index belongs to the extent only.
  const std::int64_t span =
      facts.element_class == ElementClass::pair ? facts.second_offset + info(facts.second).size : facts.size;
  return {.size = facts.size, .true_ub = span, .alignment = facts.alignment};
}

Layout element_layout(Element element) {
  const ElementInfo& facts = info(element);
  if (facts.element_class != ElementClass::pair) return Layout::of_block(facts.size);
  const Layout value = Layout::of_block(info(facts.first).size);
  const Layout index = Layout::of_block(info(facts.second).size);
  LayoutBuilder builder;
  builder.add(element_bounds(facts.first), value, 1, 0, 0);
  builder.add(element_bounds(facts.second), index, 1, 0, facts.second_offset);
  return std::move(builder).finish();
}

}  // namespace

Datatype::Datatype(const Bounds& bounds, Layout layout, Recipe recipe)
    : Object(kKind),
      bounds_(bounds),
      extent_(bounds.extent()),
      contiguous_(layout.is_one_run() && bounds.size == bounds.extent()),  // no gap within or between instances
      layout_(std::move(layout)),
      signature_(signature_of(recipe, bounds.size)),
      recipe_(std::move(recipe)) {}

Datatype::Datatype(std::uintptr_t handle, const char* own_name, Element element, std::int64_t external)
    : Object(kKind, handle),
      name(own_name),
      bounds_(element_bounds(element)),
      extent_(bounds_.extent()),
      committed_(true),
      predefined_(handle),
      element_(element),
      layout_(element_layout(element)),
      signature_{info(element).element_class == ElementClass::pair ? 2 : 1, external, element} {
  contiguous_ = layout_.is_one_run() && bounds_.size == extent_;
}

Datatype::Datatype(const Datatype& like, Recipe recipe) : Datatype(like.bounds(), like.layout(), std::move(recipe)) {
  signature_ = like.signature_;
  committed_ = true;
  predefined_ = like.predefined_;
  element_ = like.element_;
}

opal::Result<DatatypeRef> Datatype::copy() const {
  OPAL_TRY_ASSIGN(DatatypeRef made, handle::create<Datatype>(bounds_, layout_, recipe_));
  made->committed_ = committed_;
  return made;
}

std::optional<std::int64_t> Datatype::packed_size(std::int64_t count) const noexcept {
  std::int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, size(), &bytes)) return std::nullopt;
  // The offset of the end is checked, too: the first block can be far from 0, and gaps let offsets grow faster than
  // bytes.
  if (contiguous_) {
    std::int64_t end = 0;
    if (__builtin_add_overflow(bounds_.true_lb, bytes, &end)) return std::nullopt;
    return bytes;
  }
  Bounds whole;
  if (!whole.add(bounds_, count, extent_, 0)) return std::nullopt;
  return bytes;
}

}  // namespace mpi_shim::datatype
