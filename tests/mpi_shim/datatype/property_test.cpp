// SPDX-License-Identifier: Apache-2.0
// Random nested datatypes against the typemap of the standard: bounds, packing from any byte, elements.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/datatype/cursor.hpp"
#include "mpi_shim/datatype/signature.hpp"
#include "tests/mpi_shim/datatype/constructors.hpp"
#include "tests/mpi_shim/datatype/typemap.hpp"

namespace mpi_shim::datatype {
namespace {

using test::Entry;
using test::Typemap;

struct Sample {
  DatatypeRef type;
  Typemap map;
};

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>{low, high}(random_);
  }

  /// A type of at most `depth` constructors one in another and a few thousand entries.
  Sample type(int depth) {
    if (depth == 0) return basic();
    Sample part = type(depth - static_cast<int>(number(1, 2)) < 0 ? 0 : depth - 1);
    if (part.map.entries.size() > 400) return part;
    switch (number(0, 9)) {
      case 0: return contiguous_of(part);
      case 1: return vector_of(part, false);
      case 2: return vector_of(part, true);
      case 3: return indexed_of(part, false, number(0, 1) == 1);
      case 4: return indexed_of(part, true, number(0, 1) == 1);
      case 5:
      case 6: return structure_of(part, depth);
      case 7: return resized_of(part);
      case 8: return subarray_of(part);
      default: return {dup(*part.type).value(), part.map};
    }
  }

 private:
  Sample basic() {
    static constexpr Element kSome[] = {Element::byte, Element::i16,  Element::i32,          Element::f64,
                                        Element::cf64, Element::fext, Element::pair_f64_i32, Element::pair_i16_i32};
    const Element element = kSome[number(0, 7)];
    for (std::uintptr_t handle = 0; handle < handle::kBuiltinEnd; ++handle) {
      Datatype* const type = predefined(handle);
      if (type != nullptr && type->element() == element) return {DatatypeRef::share(*type), Typemap::of(element)};
    }
    ADD_FAILURE() << "no predefined type of element " << info(element).name;
    return {};
  }

  Sample contiguous_of(const Sample& part) {
    const std::int64_t count = number(0, 5);
    Sample made{contiguous(count, *part.type).value(), {}};
    made.map.add(part.map, count, 0);
    return made;
  }

  Sample vector_of(const Sample& part, bool in_bytes) {
    const std::int64_t count = number(0, 6);
    const std::int64_t length = number(0, 3);
    const std::int64_t stride = in_bytes ? number(-60, 60) : number(-4, 5);
    Sample made{
        (in_bytes ? hvector(count, length, stride, *part.type) : vector(count, length, stride, *part.type)).value(),
        {}};
    for (std::int64_t i = 0; i < count; ++i) {
      made.map.add(part.map, length, i * stride * (in_bytes ? 1 : part.map.extent()));
    }
    return made;
  }

  Sample indexed_of(const Sample& part, bool in_bytes, bool equal_lengths) {
    const bool many = part.map.entries.size() < 10 && number(0, 2) == 0;
    const auto count = static_cast<std::size_t>(many ? number(30, 150) : number(0, 8));
    std::vector<std::int64_t> lengths(count, number(0, 3));
    std::vector<std::int64_t> displacements(count);
    const bool regular = number(0, 2) == 0;
    const bool rising = number(0, 1) == 0;  // no overlaps, so that it can be unpacked too
    std::int64_t end = 0;
    const std::int64_t step = number(-9, 9);
    for (std::size_t i = 0; i < count; ++i) {
      if (!equal_lengths) lengths[i] = number(0, 3);
      if (regular) {
        displacements[i] = static_cast<std::int64_t>(i) * step;
      } else if (rising) {
        displacements[i] = end + number(0, 3) * (in_bytes ? 4 : 1);
        end = displacements[i] + lengths[i] * (in_bytes ? std::max<std::int64_t>(part.map.extent(), 1) : 1);
      } else {
        displacements[i] = many ? number(-20, 500) : number(-20, 40);
      }
    }
    const std::int64_t length = count == 0 ? 1 : lengths[0];
    Sample made;
    if (equal_lengths) {
      made.type = (in_bytes ? hindexed_block(length, displacements, *part.type)
                            : indexed_block(length, displacements, *part.type))
                      .value();
    } else {
      made.type =
          (in_bytes ? hindexed(lengths, displacements, *part.type) : indexed(lengths, displacements, *part.type))
              .value();
    }
    for (std::size_t i = 0; i < count; ++i) {
      made.map.add(part.map, lengths[i], displacements[i] * (in_bytes ? 1 : part.map.extent()));
    }
    return made;
  }

  Sample structure_of(const Sample& first, int depth) {
    const auto count = static_cast<std::size_t>(number(1, 4));
    std::vector<Sample> parts{first};
    std::vector<std::int64_t> lengths;
    std::vector<std::int64_t> displacements;
    std::vector<Datatype*> types;
    Sample made;
    std::int64_t end = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) parts.push_back(number(0, 2) == 0 ? parts.front() : type(depth - 1));
      if (parts[i].map.entries.size() > 400) parts[i] = basic();
      lengths.push_back(number(0, 3));
      displacements.push_back(number(0, 1) == 1 ? end : number(-50, 100));
      types.push_back(parts[i].type.get());
      made.map.add(parts[i].map, lengths[i], displacements[i]);
      end = displacements[i] + lengths[i] * parts[i].map.extent();
    }
    made.type = structure(lengths, displacements, types).value();
    return made;
  }

  Sample resized_of(const Sample& part) {
    const std::int64_t lb = number(-10, 10);
    const std::int64_t extent = number(-30, 90);
    Sample made{resized(*part.type, lb, extent).value(), part.map};
    made.map.lb_marker = lb;
    made.map.ub_marker = lb + extent;
    return made;
  }

  Sample subarray_of(const Sample& part) {
    const auto dimensions = static_cast<std::size_t>(number(1, 3));
    std::vector<std::int64_t> sizes(dimensions);
    std::vector<std::int64_t> subsizes(dimensions);
    std::vector<std::int64_t> starts(dimensions);
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < dimensions; ++d) {
      sizes[d] = number(1, 5);
      subsizes[d] = number(1, sizes[d]);
      starts[d] = number(0, sizes[d] - subsizes[d]);
      elements *= sizes[d];
    }
    const bool fortran = number(0, 1) == 1;
    Sample made{subarray(sizes, subsizes, starts, fortran ? Order::fortran : Order::c, *part.type).value(), {}};
    for (std::int64_t e = 0; e < elements; ++e) {  // every element of the array in storage order: is it in the section?
      std::int64_t rest = e;
      bool inside = true;
      for (std::size_t i = 0; i < dimensions; ++i) {
        const std::size_t d = fortran ? i : dimensions - 1 - i;
        const std::int64_t index = rest % sizes[d];
        rest /= sizes[d];
        inside = inside && index >= starts[d] && index < starts[d] + subsizes[d];
      }
      if (inside) made.map.add(part.map, 1, e * part.map.extent());
    }
    made.map.lb_marker = 0;
    made.map.ub_marker = elements * part.map.extent();
    return made;
  }

  std::mt19937 random_;
};

// A buffer for `count` instances at any displacement, and the message that they make.
struct Memory {
  std::vector<std::int64_t> addresses;  // of each byte of the message, from the origin
  std::vector<std::byte> bytes;
  std::int64_t lowest = 0;

  Memory(const Typemap& map, std::int64_t count) : addresses(map.byte_addresses(count)) {
    std::int64_t highest = 0;
    for (const std::int64_t a : addresses) {
      lowest = std::min(lowest, a);
      highest = std::max(highest, a + 1);
    }
    bytes.resize(static_cast<std::size_t>(highest - lowest) + 1);
  }
  std::byte* origin() { return bytes.data() - lowest; }
  std::byte& of_message(std::size_t position) { return bytes[static_cast<std::size_t>(addresses[position] - lowest)]; }
  bool overlaps() const { return std::set(addresses.begin(), addresses.end()).size() != addresses.size(); }
};

class RandomTypes : public testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomTypes, AgreeWithTheTypemapOfTheStandard) {
  Generator generate{GetParam()};
  int with_data = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const Sample sample = generate.type(static_cast<int>(generate.number(1, 5)));
    const Datatype& type = *sample.type;
    ASSERT_EQ(type.size(), sample.map.size());
    ASSERT_EQ(type.lb(), sample.map.lb());
    ASSERT_EQ(type.extent(), sample.map.extent());
    ASSERT_EQ(type.true_lb(), sample.map.true_lb());
    ASSERT_EQ(type.true_extent(), sample.map.true_ub() - sample.map.true_lb());
    ASSERT_EQ(type.signature().elements, static_cast<std::int64_t>(sample.map.entries.size()));
    if (sample.map.entries.size() > 3000) continue;

    const std::int64_t count = generate.number(0, 4);
    Memory memory{sample.map, count};
    for (std::byte& b : memory.bytes) b = static_cast<std::byte>(generate.number(0, 255));
    Cursor cursor;
    ASSERT_TRUE(cursor.start(type, memory.origin(), count));
    const std::size_t total = memory.addresses.size();
    ASSERT_EQ(cursor.size(), static_cast<std::int64_t>(total));
    with_data += total > 0;
    if (type.is_contiguous(count)) {
      for (std::size_t i = 0; i < total; ++i) {
        ASSERT_EQ(memory.addresses[i], type.true_lb() + static_cast<std::int64_t>(i));
      }
    }

    // Fragments of random sizes, with jumps back and forth, land where they should.
    std::vector<std::byte> packed(total);
    for (std::size_t at = 0; at < total;) {
      if (generate.number(0, 3) == 0) cursor.seek(generate.number(0, static_cast<std::int64_t>(total)));
      if (generate.number(0, 1) == 0) cursor.seek(static_cast<std::int64_t>(at));
      if (cursor.position() != static_cast<std::int64_t>(at)) cursor.seek(static_cast<std::int64_t>(at));
      const auto most = static_cast<std::size_t>(generate.number(1, generate.number(0, 1) == 0 ? 7 : 300));
      const std::size_t expected = std::min(most, total - at);
      if (generate.number(0, 4) == 0) {
        const Piece piece = cursor.next_piece(most);
        ASSERT_GT(piece.bytes, 0U);
        ASSERT_LE(piece.bytes, expected);
        std::memcpy(packed.data() + at, piece.data, piece.bytes);
        at += piece.bytes;
      } else {
        ASSERT_EQ(cursor.pack(std::span{packed}.subspan(at, expected)), expected);
        at += expected;
      }
    }
    for (std::size_t i = 0; i < total; ++i)
      ASSERT_EQ(packed[i], memory.of_message(i)) << "byte " << i << " of " << total;

    if (!memory.overlaps()) {
      Memory arrived{sample.map, count};
      ASSERT_TRUE(cursor.start(type, arrived.origin(), count));
      for (std::size_t at = 0; at < total;) {
        const auto part = std::min(total - at, static_cast<std::size_t>(generate.number(1, 90)));
        ASSERT_EQ(cursor.unpack(std::span{packed}.subspan(at, part)), part);
        at += part;
      }
      ASSERT_TRUE(cursor.done());
      std::vector<std::byte> expected(arrived.bytes.size());
      for (std::size_t i = 0; i < total; ++i)
        expected[static_cast<std::size_t>(memory.addresses[i] - memory.lowest)] = packed[i];
      ASSERT_EQ(arrived.bytes, expected) << "bytes outside of the type were touched, or some inside were not";
    }

    // Elements in the first so many bytes.
    const std::int64_t bytes = generate.number(0, static_cast<std::int64_t>(total));
    std::int64_t elements = 0;
    std::int64_t left = bytes;
    for (std::size_t i = 0; left > 0; i = (i + 1) % sample.map.entries.size()) {
      const std::int64_t size = Typemap::size_of(sample.map.entries[i].element);
      if (left < size) break;
      left -= size;
      ++elements;
    }
    const ElementCount found = elements_in(type, bytes);
    ASSERT_EQ(found.elements, elements);
    ASSERT_EQ(found.rest, left);
    std::vector<Element> order;
    for_each_run(type, 1, [&](const ElementRun& run) {
      for (std::int64_t n = run.count; n > 0; --n) {
        order.push_back(info(run.element).first);
        if (info(run.element).element_class == ElementClass::pair) order.push_back(info(run.element).second);
      }
    });
    ASSERT_EQ(order.size(), sample.map.entries.size());
    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], sample.map.entries[i].element);
  }
  EXPECT_GT(with_data, 150) << "most random types should hold data";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTypes, testing::Range(1U, 33U));

}  // namespace
}  // namespace mpi_shim::datatype
