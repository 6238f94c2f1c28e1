// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/datatype.hpp — an MPI datatype: bounds, layout of its bytes, signature of its elements, and its
// recipe.  Owned by references (handle::Ref): the application's handle, types made of it, pending communication.
// Threads: immutable after construction, except for the attributes, which are thread-safe, and commit() and `name`,
// whose calls the application orders.  Sizes and offsets are in bytes, 64-bit; construction checks for overflow.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mpi_shim/attribute/attributes.hpp"
#include "mpi_shim/datatype/bounds.hpp"
#include "mpi_shim/datatype/element.hpp"
#include "mpi_shim/datatype/layout.hpp"
#include "mpi_shim/handle/object.hpp"

namespace mpi_shim::datatype {

class Datatype;

/// The constructor, in the order of the standard; the values are the ABI's.
enum class Combiner : int {
  named = 101,
  dup,
  contiguous,
  vector,
  hvector,
  indexed,
  hindexed,
  indexed_block,
  hindexed_block,
  structure,
  subarray,
  darray,
  f90_real,
  f90_complex,
  f90_integer,
  resized,
  value_index,
};

/// The constructor call that made a datatype, as MPI_Type_get_envelope and _get_contents report it; its references keep
/// the parts alive.  The arguments are in the order that the standard defines for MPI_Type_get_contents: counts and
/// other integers in `integers`, byte displacements in `addresses`, datatypes in `types`.
struct Recipe {
  Combiner combiner = Combiner::named;
  std::vector<std::int64_t> integers;
  std::vector<std::int64_t> addresses;
  std::vector<handle::Ref<Datatype>> types;
  bool large_counts = false;  ///< the application called the constructor with counts of MPI_Count (_c)
};

/// What the elements of one instance are; functions over them: signature.hpp.
struct Signature {
  std::int64_t elements = 0;  ///< a pair counts as two
  /// Bytes in the representation "external32".  They are not a property of the elements: MPI_LONG and MPI_INT64_T are
  /// both i64, but have 4 and 8 bytes.
  std::int64_t external = 0;
  std::optional<Element> uniform;  ///< the one element that all data consist of; empty if there are several or none
};

class Datatype final : public handle::Object {
 public:
  static constexpr handle::Kind kKind = handle::Kind::datatype;

  /// A derived type, made by construct() (constructors.hpp).
  Datatype(const Bounds& bounds, Layout layout, Recipe recipe);
  /// A predefined type in static storage (predefined.hpp).  `external`: its size in bytes in "external32".
  Datatype(std::uintptr_t handle, const char* name, Element element, std::int64_t external);
  /// A committed type of MPI_Type_create_f90_* (constructors.hpp) with the representation of the predefined type
  /// `like`.
  Datatype(const Datatype& like, Recipe recipe);

  [[nodiscard]] std::int64_t size() const noexcept { return bounds_.size; }  ///< data bytes of one instance
  [[nodiscard]] std::int64_t lb() const noexcept { return bounds_.lb(); }
  [[nodiscard]] std::int64_t extent() const noexcept { return extent_; }
  [[nodiscard]] std::int64_t true_lb() const noexcept { return bounds_.true_lb; }
  [[nodiscard]] std::int64_t true_extent() const noexcept { return bounds_.true_extent(); }

  /// Data bytes of `count` instances.  Empty if `count` is negative, or the bytes or the offsets do not fit 63 bits.
  [[nodiscard]] std::optional<std::int64_t> packed_size(std::int64_t count) const noexcept;

  /// Whether any number of instances in a row is one block of memory, which begins at true_lb().
  [[nodiscard]] bool is_contiguous() const noexcept { return contiguous_; }
  /// Whether `count` instances are one block of memory, which begins at true_lb().
  [[nodiscard]] bool is_contiguous(std::int64_t count) const noexcept {
    return contiguous_ || (count <= 1 && layout_.is_one_run());
  }

  [[nodiscard]] const Bounds& bounds() const noexcept { return bounds_; }
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Signature& signature() const noexcept { return signature_; }
  [[nodiscard]] const Recipe& recipe() const noexcept { return recipe_; }
  /// The element of a predefined or MPI_Type_create_f90_* type; empty for a derived one (see signature().uniform).
  [[nodiscard]] std::optional<Element> element() const noexcept { return element_; }
  /// The handle of a predefined type; for a type of MPI_Type_create_f90_* that of the predefined type with the same
  /// representation; 0 for a derived type.
  [[nodiscard]] std::uintptr_t predefined_handle() const noexcept { return predefined_; }

  /// A derived type equal to this one, with a handle of its own; without the name and the attributes.
  /// Errors: no_memory.
  [[nodiscard]] opal::Result<handle::Ref<Datatype>> copy() const;

  [[nodiscard]] bool is_committed() const noexcept { return committed_; }
  void commit() noexcept { committed_ = true; }

  std::string name;
  attribute::Attributes<MPI_Datatype> attributes;

 private:
  Bounds bounds_;
  std::int64_t extent_;
  bool contiguous_;
  bool committed_ = false;
  std::uintptr_t predefined_ = 0;
  std::optional<Element> element_;
  Layout layout_;
  Signature signature_;
  Recipe recipe_;
};

using DatatypeRef = handle::Ref<Datatype>;

}  // namespace mpi_shim::datatype
