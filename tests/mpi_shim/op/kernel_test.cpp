// SPDX-License-Identifier: Apache-2.0
// Every operation on every element: defined exactly where the standard says, and equal to a scalar reference that works
// on one element at a time with its own arithmetic (128-bit integers, std::complex, double for half precision).
#include "mpi_shim/op/kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "mpi_shim/op/half.hpp"

namespace mpi_shim::op {
namespace {

using datatype::Element;
using datatype::ElementClass;
using datatype::ElementInfo;
__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

constexpr OpKind kKinds[] = {OpKind::sum,    OpKind::min,    OpKind::max,     OpKind::prod, OpKind::band,
                             OpKind::bor,    OpKind::bxor,   OpKind::land,    OpKind::lor,  OpKind::lxor,
                             OpKind::minloc, OpKind::maxloc, OpKind::replace, OpKind::no_op};
constexpr const char* kNames[] = {"SUM",  "MIN", "MAX",  "PROD",   "BAND",   "BOR",     "BXOR",
                                  "LAND", "LOR", "LXOR", "MINLOC", "MAXLOC", "REPLACE", "NO_OP"};

bool standard_defines(OpKind kind, ElementClass of) {
  switch (kind) {
    case OpKind::sum:
    case OpKind::prod:
      return of == ElementClass::integer || of == ElementClass::floating || of == ElementClass::complex;
    case OpKind::min:
    case OpKind::max: return of == ElementClass::integer || of == ElementClass::floating;
    case OpKind::band:
    case OpKind::bor:
    case OpKind::bxor: return of == ElementClass::integer || of == ElementClass::byte;
    case OpKind::land:
    case OpKind::lor:
    case OpKind::lxor: return of == ElementClass::integer || of == ElementClass::logical;
    case OpKind::minloc:
    case OpKind::maxloc: return of == ElementClass::pair;
    case OpKind::replace:
    case OpKind::no_op: return true;
    case OpKind::user: return false;
  }
  return false;
}

bool is_signed(Element element) {
  return element == Element::i8 || element == Element::i16 || element == Element::i32 || element == Element::i64 ||
         element == Element::i128;
}

// ---- One element of the reference, read from and written to bytes ----

Wide read_integer(const std::byte* from, std::size_t size, bool with_sign) {
  UnsignedWide value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(from[i]);
  if (with_sign && size < 16 && (value >> (8 * size - 1) & 1) != 0) value |= ~UnsignedWide{0} << (8 * size);
  return static_cast<Wide>(value);
}
void write_integer(std::byte* to, std::size_t size, Wide value) {
  for (std::size_t i = 0; i < size; ++i)
    to[i] = static_cast<std::byte>(static_cast<UnsignedWide>(value) >> (8 * i) & 0xff);
}

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

Wide integer_result(OpKind kind, Wide a, Wide b, bool with_sign) {
  const bool less = with_sign ? a < b : static_cast<UnsignedWide>(a) < static_cast<UnsignedWide>(b);
  switch (kind) {
    case OpKind::sum: return static_cast<Wide>(static_cast<UnsignedWide>(a) + static_cast<UnsignedWide>(b));
    case OpKind::prod: return static_cast<Wide>(static_cast<UnsignedWide>(a) * static_cast<UnsignedWide>(b));
    case OpKind::min: return less ? a : b;
    case OpKind::max: return less ? b : a;
    case OpKind::band: return a & b;
    case OpKind::bor: return a | b;
    case OpKind::bxor: return a ^ b;
    case OpKind::land: return a != 0 && b != 0 ? 1 : 0;
    case OpKind::lor: return a != 0 || b != 0 ? 1 : 0;
    case OpKind::lxor: return (a != 0) != (b != 0) ? 1 : 0;
    default: ADD_FAILURE(); return 0;
  }
}

template <class T>
T floating_result(OpKind kind, T a, T b) {
  switch (kind) {
    case OpKind::sum: return a + b;
    case OpKind::prod: return a * b;
    case OpKind::min: return a < b ? a : b;
    case OpKind::max: return a > b ? a : b;
    default: ADD_FAILURE(); return 0;
  }
}

template <class T>
bool floating_agrees(OpKind kind, const std::byte* in, const std::byte* before, const std::byte* after) {
  return floating_result<T>(kind, read<T>(in), read<T>(before)) == read<T>(after);
}

template <class T>
bool complex_agrees(OpKind kind, const std::byte* in, const std::byte* before, const std::byte* after) {
  const std::complex<double> a{static_cast<double>(read<T>(in)), static_cast<double>(read<T>(in + sizeof(T)))};
  const std::complex<double> b{static_cast<double>(read<T>(before)), static_cast<double>(read<T>(before + sizeof(T)))};
  const std::complex<double> expected =
      kind == OpKind::sum ? a + b : a * b;  // small whole numbers: exact in every type
  return expected.real() == static_cast<double>(read<T>(after)) &&
         expected.imag() == static_cast<double>(read<T>(after + sizeof(T)));
}

template <class V, class I>
bool pair_agrees(OpKind kind, std::size_t offset, const std::byte* in, const std::byte* before,
                 const std::byte* after) {
  const V a = read<V>(in);
  const V b = read<V>(before);
  const I i = read<I>(in + offset);
  const I j = read<I>(before + offset);
  V value = b;
  I index = j;
  if (kind == OpKind::minloc ? a < b : a > b) {
    value = a;
    index = i;
  } else if (a == b) {
    index = std::min(i, j);
  }
  return read<V>(after) == value && read<I>(after + offset) == index;
}

bool agrees(OpKind kind, Element element, const std::byte* in, const std::byte* before, const std::byte* after) {
  const ElementInfo& facts = info(element);
  if (kind == OpKind::replace) return std::memcmp(in, after, facts.extent) == 0;
  if (kind == OpKind::no_op) return std::memcmp(before, after, facts.extent) == 0;
  switch (element) {
    case Element::f16: {
      const auto a = static_cast<float>(read<Half>(in));
      const auto b = static_cast<float>(read<Half>(before));
      return floating_result<float>(kind, a, b) == static_cast<float>(read<Half>(after));  // exact: small whole numbers
    }
    case Element::f32: return floating_agrees<float>(kind, in, before, after);
    case Element::f64: return floating_agrees<double>(kind, in, before, after);
    case Element::fext: return floating_agrees<long double>(kind, in, before, after);
#if defined(__SIZEOF_FLOAT128__)
    case Element::f128: return floating_agrees<__float128>(kind, in, before, after);
    case Element::cf128: return complex_agrees<__float128>(kind, in, before, after);
#endif
    case Element::cf16: {
      const auto wide = [](const std::byte* at) {
        const float parts[] = {static_cast<float>(read<Half>(at)), static_cast<float>(read<Half>(at + 2))};
        return std::vector<std::byte>(reinterpret_cast<const std::byte*>(parts),
                                      reinterpret_cast<const std::byte*>(parts + 2));
      };
      return complex_agrees<float>(kind, wide(in).data(), wide(before).data(), wide(after).data());
    }
    case Element::cf32: return complex_agrees<float>(kind, in, before, after);
    case Element::cf64: return complex_agrees<double>(kind, in, before, after);
    case Element::cfext: return complex_agrees<long double>(kind, in, before, after);
    case Element::pair_f32_i32: return pair_agrees<float, int>(kind, facts.second_offset, in, before, after);
    case Element::pair_f64_i32: return pair_agrees<double, int>(kind, facts.second_offset, in, before, after);
    case Element::pair_i64_i32: return pair_agrees<std::int64_t, int>(kind, facts.second_offset, in, before, after);
    case Element::pair_i32_i32: return pair_agrees<int, int>(kind, facts.second_offset, in, before, after);
    case Element::pair_i16_i32: return pair_agrees<std::int16_t, int>(kind, facts.second_offset, in, before, after);
    case Element::pair_fext_i32: return pair_agrees<long double, int>(kind, facts.second_offset, in, before, after);
    case Element::pair_f32_f32: return pair_agrees<float, float>(kind, facts.second_offset, in, before, after);
    case Element::pair_f64_f64: return pair_agrees<double, double>(kind, facts.second_offset, in, before, after);
    default: {
      const bool with_sign = is_signed(element);
      const Wide a = read_integer(in, facts.size, with_sign);
      const Wide b = read_integer(before, facts.size, with_sign);
      std::byte expected[16];
      write_integer(expected, facts.size, integer_result(kind, a, b, with_sign));
      return std::memcmp(expected, after, facts.size) == 0;
    }
  }
}

// ---- Arrays of random elements ----

class Source {
 public:
  void fill(Element element, std::byte* to) {
    const ElementInfo& facts = info(element);
    switch (facts.element_class) {
      case ElementClass::pair:
        std::memset(to, 0, facts.extent);
        fill_number(facts.first, to);
        fill_number(facts.second, to + facts.second_offset);
        return;
      case ElementClass::floating: return fill_number(element, to);
      case ElementClass::complex: {
        const Element part = element == Element::cf16    ? Element::f16
                             : element == Element::cf32  ? Element::f32
                             : element == Element::cf64  ? Element::f64
                             : element == Element::cfext ? Element::fext
                                                         : Element::f128;
        fill_number(part, to);
        return fill_number(part, to + info(part).size);
      }
      default:
        for (std::size_t i = 0; i < facts.size; ++i) to[i] = static_cast<std::byte>(random_() & 0xff);
        if (random_() % 3 == 0) std::memset(to, 0, facts.size);  // so that logical operations see false too
    }
  }

 private:
  // Small whole numbers: sums and products are exact, and equal values are frequent.
  void fill_number(Element element, std::byte* to) {
    const int value = static_cast<int>(random_() % 15) - 7;
    const auto put = [&](auto number) {
      std::memset(to, 0, info(element).size);
      std::memcpy(to, &number, std::min(sizeof(number), std::size_t{info(element).size}));
    };
    switch (element) {
      case Element::f16: return put(Half::of(static_cast<float>(value)));
      case Element::f32: return put(static_cast<float>(value));
      case Element::f64: return put(static_cast<double>(value));
      case Element::fext: return put(static_cast<long double>(value));
#if defined(__SIZEOF_FLOAT128__)
      case Element::f128: return put(static_cast<__float128>(value));
#endif
      default: return write_integer(to, info(element).size, value);
    }
  }
  std::mt19937 random_{7};
};

TEST(Kernels, ExistExactlyForTheCombinationsThatTheStandardDefines) {
  for (std::size_t k = 0; k < std::size(kKinds); ++k) {
    for (std::size_t e = 0; e < datatype::kElements; ++e) {
      const auto element = static_cast<Element>(e);
      EXPECT_EQ(find_kernel(kKinds[k], element) != nullptr, standard_defines(kKinds[k], info(element).element_class))
          << kNames[k] << " of " << info(element).name;
    }
  }
}

Vectors next(Vectors vectors) { return static_cast<Vectors>(static_cast<int>(vectors) + 1); }

TEST(Kernels, AgreeWithTheScalarReferenceOnEveryCombinationLengthAlignmentAndVectorWidth) {
  Source source;
  int combinations = 0;
  for (std::size_t k = 0; k < std::size(kKinds); ++k) {
    for (std::size_t e = 0; e < datatype::kElements; ++e) {
      const auto element = static_cast<Element>(e);
      const Kernel kernel = find_kernel(kKinds[k], element, Vectors::built_in);
      if (kernel == nullptr) continue;
      ++combinations;
      const std::size_t extent = info(element).extent;
      for (const std::size_t count : {0, 1, 2, 7, 33, 200}) {
        for (const std::size_t skew : {0, 1}) {
          std::vector<std::byte> in(count * extent + 2);
          std::vector<std::byte> inout(count * extent + 2);
          for (std::size_t i = 0; i < count; ++i) {
            source.fill(element, in.data() + skew + i * extent);
            source.fill(element, inout.data() + skew + i * extent);
          }
          const std::byte guard{0x5a};
          inout[skew + count * extent] = guard;
          const std::vector<std::byte> in_before = in;
          const std::vector<std::byte> before = inout;
          kernel(in.data() + skew, inout.data() + skew, static_cast<std::int64_t>(count));
          for (auto wider = Vectors::avx2; wider <= widest_vectors(); wider = next(wider)) {
            const Kernel wide = find_kernel(kKinds[k], element, wider);
            if (wide == kernel) continue;
            std::vector<std::byte> other = before;
            wide(in.data() + skew, other.data() + skew, static_cast<std::int64_t>(count));
            ASSERT_EQ(other, inout) << kNames[k] << " of " << info(element).name << ", " << count
                                    << " elements, with vectors " << static_cast<int>(wider);
          }
          ASSERT_EQ(in, in_before);
          ASSERT_EQ(inout[skew + count * extent], guard);
          for (std::size_t i = 0; i < count; ++i) {
            const std::size_t at = skew + i * extent;
            ASSERT_TRUE(agrees(kKinds[k], element, in.data() + at, before.data() + at, inout.data() + at))
                << kNames[k] << " of " << info(element).name << " element " << i << " of " << count;
          }
        }
      }
    }
  }
  EXPECT_GT(combinations, 180);
}

TEST(Kernels, IntegerOverflowWrapsAround) {
  std::int16_t a = std::numeric_limits<std::int16_t>::max();
  std::int16_t b = std::numeric_limits<std::int16_t>::max();
  find_kernel(OpKind::prod, Element::i16)(&a, &b, 1);
  EXPECT_EQ(b, 1);
  std::int64_t c = std::numeric_limits<std::int64_t>::max();
  std::int64_t d = 1;
  find_kernel(OpKind::sum, Element::i64)(&c, &d, 1);
  EXPECT_EQ(d, std::numeric_limits<std::int64_t>::min());
}

TEST(Half, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const auto wide = static_cast<float>(half);
    if ((bits & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(static_cast<float>(Half::of(wide))));
    } else {
      ASSERT_EQ(Half::of(wide).bits, bits);
    }
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(Half::of(2049.0F).bits, Half::of(2048.0F).bits);
  EXPECT_EQ(Half::of(2051.0F).bits, Half::of(2052.0F).bits);
  EXPECT_EQ(Half::of(65519.0F).bits, 0x7bff);
  EXPECT_EQ(Half::of(65520.0F).bits, 0x7c00);
  EXPECT_EQ(Half::of(0x1p-25F).bits, 0);
  EXPECT_EQ(Half::of(0x1.8p-25F).bits, 1);
  EXPECT_EQ(Half::of(-0x1p-24F).bits, 0x8001);
}

}  // namespace
}  // namespace mpi_shim::op
