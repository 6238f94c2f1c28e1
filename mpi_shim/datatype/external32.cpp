// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/external32.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "mpi_shim/datatype/cursor.hpp"
#include "mpi_shim/datatype/signature.hpp"

namespace mpi_shim::datatype {
namespace {

__extension__ using Quad = __float128;

static_assert(std::endian::native == std::endian::little, "values are turned around");

/// One number: its size in memory (`native`) and in external32 (`external`), in bytes.
struct Number {
  std::size_t native;
  std::size_t external;
  bool is_signed;    // decode() extends the sign if `native` is larger than `external`
  bool is_extended;  // long double, which is converted to and from binary128
};

void turn_around(const std::byte* from, std::byte* to, std::size_t size) noexcept {
  std::reverse_copy(from, from + size, to);
}

void encode(const Number& number, const std::byte* native, std::byte* external) noexcept {
  if (number.is_extended) {
    long double value = 0;
    std::memcpy(&value, native, sizeof value);
    const Quad quad = static_cast<Quad>(value);
    std::array<std::byte, sizeof quad> bytes;
    std::memcpy(bytes.data(), &quad, sizeof quad);
    return turn_around(bytes.data(), external, sizeof quad);
  }
  turn_around(native, external, number.external);  // little-endian: the lower bytes are first
}

void decode(const Number& number, const std::byte* external, std::byte* native) noexcept {
  if (number.is_extended) {
    Quad quad = 0;
    std::array<std::byte, sizeof quad> bytes;
    turn_around(external, bytes.data(), sizeof quad);
    std::memcpy(&quad, bytes.data(), sizeof quad);
    const auto value = static_cast<long double>(quad);
    std::memcpy(native, &value, sizeof value);
    return;
  }
  turn_around(external, native, number.external);
  const bool negative = number.is_signed && (external[0] & std::byte{0x80}) != std::byte{0};
  std::memset(native + number.external, negative ? 0xff : 0, number.native - number.external);
}

/// The numbers of one element: real and imaginary part of a complex number, value and index of a pair, else one.
struct Numbers {
  std::array<Number, 2> of;
  std::size_t count;
};

Numbers numbers_of(const ElementRun& run) noexcept {
  const ElementInfo& facts = info(run.element);
  const std::size_t bytes = facts.size;
  const auto external = static_cast<std::size_t>(run.external);
  const bool is_extended = facts.first == Element::fext || run.element == Element::cfext;
  if (facts.element_class == ElementClass::complex) {
    const Number half{bytes / 2, external / 2, false, is_extended};
    return {{half, half}, 2};
  }
  if (facts.element_class == ElementClass::pair) {
    const std::size_t index = info(facts.second).size;
    return {{{{bytes - index, external - index, true, is_extended}, {index, index, true, false}}}, 2};
  }
  const bool is_signed = facts.element_class == ElementClass::integer && run.element != Element::u64;
  return {{{{bytes, external, is_signed, is_extended}, {}}}, 1};
}

/// Converts `count` instances in `buffer` to or from external32, in chunks of packed native bytes.  `External`: const
/// bytes to unpack, other bytes to pack.
template <class Buffer, class External>
void convert(const Datatype& type, Buffer* buffer, std::int64_t count, External* external) {
  constexpr bool packs = !std::is_const_v<External>;
  Cursor cursor;
  if (!cursor.start(type, buffer, count)) return;  // the caller has checked the sizes
  std::array<std::byte, 4096> native;
  for_each_run(type, count, [&](const ElementRun& run) {
    const Numbers numbers = numbers_of(run);
    const std::size_t size = info(run.element).size;
    for (std::int64_t left = run.count; left > 0;) {
      const auto elements = std::min(static_cast<std::size_t>(left), native.size() / size);
      const opal::MutableBytes chunk{native.data(), elements * size};
      if constexpr (packs) cursor.pack(chunk);
      std::byte* at = native.data();
      for (std::size_t i = 0; i < elements; ++i) {
        for (std::size_t part = 0; part < numbers.count; ++part) {
          const Number& number = numbers.of[part];
          if constexpr (packs) {
            encode(number, at, external);
          } else {
            decode(number, external, at);
          }
          at += number.native;
          external += number.external;
        }
      }
      if constexpr (!packs) cursor.unpack(chunk);
      left -= static_cast<std::int64_t>(elements);
    }
  });
}

}  // namespace

std::optional<std::int64_t> external32_size(const Datatype& type, std::int64_t count) noexcept {
  std::int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, type.signature().external, &bytes)) return std::nullopt;
  return bytes;
}

void pack_external32(const Datatype& type, const void* buffer, std::int64_t count, opal::MutableBytes to) {
  convert(type, buffer, count, to.data());
}

void unpack_external32(const Datatype& type, void* buffer, std::int64_t count, opal::ByteSpan from) {
  convert(type, buffer, count, from.data());
}

}  // namespace mpi_shim::datatype
