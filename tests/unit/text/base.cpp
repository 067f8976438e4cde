// The base room alone: random numbers, exact sums, 16-bit types, texts, JSON fields and small files, against numbers
// from elsewhere.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "base/checked.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/exact_sum.h"
#include "base/half.h"
#include "base/json.h"
#include "base/missing_path.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/read_text.h"
#include "base/shape.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "tests/unit/text_help.h"

namespace ravine {
namespace test_base {

using test::Folder;
using Words = std::array<uint32_t, 4>;

// Known answers of Random123 (kat_vectors, philox4x32 of 10 rounds).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(UINT64_MAX, {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822u, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// FNV-1a of the name as key, the seed as counter, computed in Python. A later version that resumes a run draws the
// same.
TEST(Philox, KeysOfNamesAreForEver) {
  EXPECT_EQ(philox_key(42, "layers.0.attn.q_proj.weight"), 0x3124c1c99a0fcc36u);
  EXPECT_EQ(philox_key(0, ""), 0x932dfe8e41509a0eu);
  EXPECT_EQ(philox_key(uint64_t{5} << 32 | 7, "\xC3\xA9"), 0xde120b57ffbce160u);
}

TEST(Philox, UniformAndNormalNumbers) {
  EXPECT_EQ(uniform24(0), 0.0f);
  EXPECT_EQ(uniform24(0xff), 0.0f);
  EXPECT_EQ(uniform24(0x80000000u), 0.5f);
  EXPECT_EQ(uniform24(UINT32_MAX), 1.0f - 0x1p-24f);
  for (auto [a, b] :
       {std::pair<uint32_t, uint32_t>{0, 0}, {UINT32_MAX, 5}, {0x80000000u, 0x40000000u}, {123456789, 3000000000u}}) {
    const double r = std::sqrt(-2 * std::log((a + 1.0) / 4294967296.0)), angle = 2 * std::numbers::pi * b / 4294967296.0;
    const auto [x, y] = normal_pair(a, b);
    EXPECT_NEAR(x, r * std::cos(angle), 1e-15 * (1 + r));
    EXPECT_NEAR(y, r * std::sin(angle), 1e-15 * (1 + r));
  }
}

double exact(const std::vector<double>& terms) {
  ExactSum s;
  for (double x : terms) s.add(x);
  return s.value();
}

TEST(ExactSum, LosesNothing) {
  const double inf = std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::max(),
               least = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(exact({}), 0);
  EXPECT_EQ(exact({1e16, 1, -1e16}), 1);
  EXPECT_EQ(exact({-1e16, -1, 1e16}), -1);
  EXPECT_EQ(exact({1, 0x1p-60, -1}), 0x1p-60);
  EXPECT_EQ(exact({most, -most}), 0);
  EXPECT_EQ(exact({most, most, -most}), most);
  EXPECT_EQ(exact({least, least, least}), 3 * least);
  EXPECT_EQ(exact({0x1p-1022, -least}), 0x1p-1022 - least);
  EXPECT_EQ(exact({1e300, 1e-300, -1e300}), 1e-300);
  EXPECT_EQ(exact({-1, 0x1p-53}), -1 + 0x1p-53);
  EXPECT_EQ(exact({-0.0, 0.0}), 0);
  EXPECT_EQ(exact({1, inf, 2}), inf);
  EXPECT_EQ(exact({-inf, 2}), -inf);
  EXPECT_TRUE(std::isnan(exact({inf, -inf})));
  EXPECT_TRUE(std::isnan(exact({std::nan(""), 1})));
  // Every exponent and its negative, but for one.
  std::vector<double> terms;
  for (int e = -1074; e < 1023; e += 7) terms.push_back(std::ldexp(1.0, e)), terms.push_back(-std::ldexp(1.0, e));
  terms.push_back(0x1.8p-500);
  std::shuffle(terms.begin(), terms.end(), std::mt19937(2));
  EXPECT_EQ(exact(terms), 0x1.8p-500);
}

TEST(ExactSum, OfPartsInAnyOrderIsThatOfAll) {
  std::mt19937_64 draw(9);
  std::vector<double> terms;
  for (int i = 0; i < 3000; ++i)
    terms.push_back(std::ldexp(static_cast<double>(static_cast<int64_t>(draw())), static_cast<int>(draw() % 400) - 260));
  const double all = exact(terms);
  long double near = 0, size = 0;
  for (double x : terms) near += x, size += std::abs(x);
  EXPECT_NEAR(all, static_cast<double>(near), static_cast<double>(size) * 3000 * 0x1p-63);
  for (size_t parts : {2u, 7u}) {
    std::shuffle(terms.begin(), terms.end(), draw);
    std::vector<ExactSum> part(parts);
    for (size_t i = 0; i < terms.size(); ++i) {
      part[i % parts].add(terms[i]);
      if (i % 5 == 0) (void)part[i % parts].value();  // looking changes nothing
      if (i % 11 == 0) part[i % parts].normalize();
    }
    ExactSum sum;
    for (ExactSum& p : part) sum.add(p);
    EXPECT_EQ(sum.value(), all);
    ExactSum added;  // as between ranks: limb by limb
    for (ExactSum& p : part) {
      p.normalize();
      for (int k = 0; k < ExactSum::kLimbs; ++k) added.limbs()[static_cast<size_t>(k)] += p.limbs()[static_cast<size_t>(k)];
    }
    EXPECT_EQ(added.value(), all);
  }
  ExactSum with_infinity, sum;
  with_infinity.add(std::numeric_limits<double>::infinity());
  sum.add(1);
  sum.add(with_infinity);
  EXPECT_EQ(sum.value(), std::numeric_limits<double>::infinity());
}

// By IEEE 754: to the nearest, ties to even.
TEST(Half, RoundsToNearestEven) {
  const float inf = std::numeric_limits<float>::infinity();
  for (auto [x, bits] : std::vector<std::pair<float, uint16_t>>{{0.0f, 0},
                                                                {-0.0f, 0x8000},
                                                                {1.0f, 0x3c00},
                                                                {-2.0f, 0xc000},
                                                                {65504.0f, 0x7bff},
                                                                {65519.996f, 0x7bff},
                                                                {65520.0f, 0x7c00},
                                                                {inf, 0x7c00},
                                                                {-inf, 0xfc00},
                                                                {1 + 0x1p-11f, 0x3c00},
                                                                {1 + 3 * 0x1p-11f, 0x3c02},
                                                                {1 + 0x1p-11f + 0x1p-20f, 0x3c01},
                                                                {0x1p-14f, 0x0400},
                                                                {0x1p-14f - 0x1p-25f, 0x0400},
                                                                {0x1p-14f - 0x1p-24f, 0x03ff},
                                                                {0x1p-24f, 1},
                                                                {0x1p-25f, 0},
                                                                {0x1.8p-25f, 1},
                                                                {0x1.8p-24f, 2},
                                                                {-0x1p-24f, 0x8001},
                                                                {1e-30f, 0}})
    EXPECT_EQ(f16(x).bits, bits) << x;
  for (auto [x, bits] : std::vector<std::pair<float, uint16_t>>{{0.0f, 0},
                                                                {-0.0f, 0x8000},
                                                                {1.0f, 0x3f80},
                                                                {1 + 0x1p-8f, 0x3f80},
                                                                {1 + 3 * 0x1p-8f, 0x3f82},
                                                                {1 + 0x1p-8f + 0x1p-20f, 0x3f81},
                                                                {-1 - 0x1p-8f, 0xbf80},
                                                                {std::numeric_limits<float>::max(), 0x7f80},
                                                                {inf, 0x7f80},
                                                                {0x1p-149f, 0},
                                                                {0x1p-133f, 1},
                                                                {3.3895314e38f, 0x7f7f}})
    EXPECT_EQ(bf16(x).bits, bits) << x;
  for (uint32_t nan : {0x7f800001u, 0xffc00000u, 0x7fffffffu}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(nan))))) << nan;
    EXPECT_TRUE(std::isnan(static_cast<float>(f16(std::bit_cast<float>(nan))))) << nan;
  }
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {  // the value by its definition
    f16 h;
    h.bits = static_cast<uint16_t>(bits);
    const int e = static_cast<int>(bits >> 10), m = static_cast<int>(bits & 0x3ff);
    EXPECT_EQ(static_cast<float>(h),
              e == 0 ? std::ldexp(static_cast<float>(m), -24) : std::ldexp(static_cast<float>(1024 + m), e - 25));
    EXPECT_EQ(f16(static_cast<float>(h)).bits, bits);
  }
}

TEST(DTypes, HaveThreeNamesASizeAndASpacing) {
  struct Row {
    DType type;
    const char *name, *file, *python;
    int64_t size;
    double epsilon;
  };
  for (const Row& r :
       {Row{DType::f64, "f64", "F64", "float64", 8, std::numeric_limits<double>::epsilon()},
        Row{DType::f32, "f32", "F32", "float32", 4, std::numeric_limits<float>::epsilon()},
        Row{DType::bf16, "bf16", "BF16", "bfloat16", 2, 1.0 / 128}, Row{DType::f16, "f16", "F16", "float16", 2, 1.0 / 1024},
        Row{DType::i64, "i64", "I64", "int64", 8, 0}, Row{DType::i32, "i32", "I32", "int32", 4, 0},
        Row{DType::i16, "i16", "I16", "int16", 2, 0}, Row{DType::i8, "i8", "I8", "int8", 1, 0},
        Row{DType::u8, "u8", "U8", "uint8", 1, 0}, Row{DType::boolean, "bool", "BOOL", "boolean", 1, 0}}) {
    for (const char* n : {r.name, r.file, r.python}) EXPECT_EQ(parse_dtype(n), r.type) << n;
    EXPECT_EQ(name(r.type), r.name);
    EXPECT_EQ(file_name(r.type), r.file);
    EXPECT_EQ(size_of(r.type), r.size);
    EXPECT_EQ(is_float(r.type), r.epsilon > 0);
    if (r.epsilon > 0) {
      EXPECT_EQ(epsilon(r.type), r.epsilon);
    } else {
      EXPECT_THROW(epsilon(r.type), Error);
    }
  }
  EXPECT_EQ(parse_dtype("float8"), std::nullopt);
}

TEST(Text, PatternsOfNames) {
  for (auto [pattern, name, fits] :
       std::vector<std::tuple<const char*, const char*, bool>>{{"", "", true},
                                                               {"", "a", false},
                                                               {"*", "", true},
                                                               {"*", "a.b.c", true},
                                                               {"a", "a", true},
                                                               {"a", "ab", false},
                                                               {"a?", "a", false},
                                                               {"a?", "ab", true},
                                                               {"?", "", false},
                                                               {"*.weight", "layers.0.weight", true},
                                                               {"*.weight", "weight", false},
                                                               {"layers.*.q_proj.*", "layers.10.q_proj.bias", true},
                                                               {"layers.*.q_proj", "layers.1.q_proj.bias", false},
                                                               {"*a*b*", "xxaxxb", true},
                                                               {"*a*b*", "xxbxxa", false},
                                                               {"a*b*c", "abbbc", true},
                                                               {"a*bc", "abcbc", true},
                                                               {"**", "x", true},
                                                               {"a**", "a", true},
                                                               {"*norm*", "final_norm.weight", true},
                                                               {"[a]", "a", false},
                                                               {"a*", "ba", false}})
    EXPECT_EQ(glob_match(pattern, name), fits) << pattern << " " << name;
}

TEST(Text, NearestWordsAreSlipsOnly) {
  const std::vector<std::string> words{"steps", "seed", "output", "train", "abcd"};
  for (auto [word, near] : std::vector<std::pair<std::string, const char*>>{{"stpes", "steps"},
                                                                            {"step", "steps"},
                                                                            {"stepps", "steps"},
                                                                            {"sepps", ""},
                                                                            {"traim", "train"},
                                                                            {"sead", "seed"},
                                                                            {"xead", ""},
                                                                            {"ouptut", "output"},
                                                                            {"utputx", "output"},
                                                                            {"b", ""},
                                                                            {"", ""},
                                                                            {"seeds", "seed"},
                                                                            {"acbd", "abcd"},
                                                                            {std::string(201, 's'), ""}})
    EXPECT_EQ(nearest(word, words), near) << word;
  EXPECT_EQ(nearest("ab", {"ax", "bb", "ab"}), "ab") << "nothing is nearer than itself";
  EXPECT_EQ(nearest("ab", {"ac", "bb"}), "ac") << "of equals the first";
  EXPECT_EQ(nearest("a", {"b"}), "b") << "one change even of one letter";
  EXPECT_EQ(nearest("123456789", {"123xyz789"}), "123xyz789") << "a third of the letters";
  EXPECT_EQ(nearest("12345678", {"12xyz678"}), "");
  EXPECT_EQ(split("a,,b,", ','), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
}

// RFC 3629.
TEST(Text, InvalidUtf8IsFoundWhereItBegins) {
  for (auto [text, at] :
       std::vector<std::pair<std::string, size_t>>{{"", std::string::npos},
                                                   {"a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80", std::string::npos},
                                                   {"\x80", 0},
                                                   {"a\xC3", 1},
                                                   {"a\xC3(", 1},
                                                   {"\xC0\x80", 0},
                                                   {"\xC1\xBF", 0},
                                                   {"\xC2\x80", std::string::npos},
                                                   {"\xE0\x9F\xBF", 0},
                                                   {"\xE0\xA0\x80", std::string::npos},
                                                   {"\xED\x9F\xBF", std::string::npos},
                                                   {"\xED\xA0\x80", 0},
                                                   {"\xEE\x80\x80", std::string::npos},
                                                   {"\xF0\x8F\xBF\xBF", 0},
                                                   {"\xF0\x90\x80\x80", std::string::npos},
                                                   {"\xF4\x8F\xBF\xBF", std::string::npos},
                                                   {"\xF4\x90\x80\x80", 0},
                                                   {"\xF5\x80\x80\x80", 0},
                                                   {"ab\xE4\xBD", 2},
                                                   {"\xE4\xBD\xA0\xF0\x9F\x98", 3},
                                                   {"\xF0\x9F\x98(", 0},
                                                   {"\xE4\xBD(", 0}})
    EXPECT_EQ(find_invalid_utf8(text), at) << Json(escaped(text)).dump();
}

TEST(Text, WhatReachesATerminalCannotMoveIt) {
  for (auto [text, shown] : std::vector<std::pair<std::string, const char*>>{
           {"plain \xC3\xA9 \xE4\xBD\xA0", "plain \xC3\xA9 \xE4\xBD\xA0"},
           {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
           {"\x1b[2J", "\\x1b[2J"},
           {std::string("\0", 1), "\\x00"},
           {"\x7f", "\\x7f"},
           {"\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0", "\\x80\\x9b\\x9f\xC2\xA0"},
           {"\xff\xfe"
            "a",
            "\\xff\\xfea"},
           {"\xE2\x80\xA7\xE2\x80\xA8\xE2\x80\xAE\xE2\x80\xAF", "\xE2\x80\xA7\\u2028\\u202e\xE2\x80\xAF"},
           {"\xE2\x81\xA5\xE2\x81\xA6\xE2\x81\xA9\xE2\x81\xAA", "\xE2\x81\xA5\\u2066\\u2069\xE2\x81\xAA"},
           {"a\xE4\xBD", "a\\xe4\\xbd"},
           {"\xF0\x9F\x98\x80\x1f", "\xF0\x9F\x98\x80\\x1f"}})
    EXPECT_EQ(escaped(text), shown);
  EXPECT_EQ(escaped("a\nb\t\x01", "\n\t"), "a\nb\t\\x01");
  for (auto [word, quoted] : std::vector<std::pair<const char*, const char*>>{{"", "''"},
                                                                              {"a.b/c-d_e=1:2,3+4@5%", "a.b/c-d_e=1:2,3+4@5%"},
                                                                              {"a b", "'a b'"},
                                                                              {"it's", "'it'\\''s'"},
                                                                              {"$x", "'$x'"},
                                                                              {"~/a", "'~/a'"},
                                                                              {"*.txt", "'*.txt'"},
                                                                              {"a;b", "'a;b'"},
                                                                              {"\xC3\xA9", "'\xC3\xA9'"}})
    EXPECT_EQ(shell_word(word), quoted);
}

TEST(MissingPaths, SuggestTheLikelyPath) {
  Folder f;
  f.write("books/one.txt", "");
  f.write("books/two.txt", "");
  for (const char* name : {"ids_text_document.bin", "ids_text_document.idx", "weights.bin"}) f.write(name, "");
  const std::string d = f.path.string();
  for (
      auto [path, hub, advice] : std::vector<std::tuple<std::string, Hub, std::string>>{
          {d + "/books/onee.txt", Hub::none, "did you mean '" + d + "/books/one.txt'?"},
          {d + "/bokos/one.txt", Hub::none, "did you mean '" + d + "/books/one.txt'?"},
          {d + "/ids_tex_document", Hub::none, "did you mean '" + d + "/ids_text_document'?"},
          {d + "/ids_text_documen.bin", Hub::none, "did you mean '" + d + "/ids_text_document'?"},
          {d + "/ids_text_document.idxx", Hub::none, "did you mean '" + d + "/ids_text_document'?"},
          {d + "/weigts.bin", Hub::none, "did you mean '" + d + "/weights.bin'?"},
          {d + "/bokos/", Hub::none, "did you mean '" + d + "/books'?"},
          {d + "/books/zzzzzz.txt", Hub::none, "check the path"},
          {d + "/qqqqqq/b/c.txt", Hub::none, "check the path: there is no " + d + "/qqqqqq"},
          {"own-er/na.me", Hub::models,
           "check the path: there is no own-er; if it is a name of the Hugging Face hub, download it first: `hf download own-er/na.me --local-dir na.me`, then name that folder"},
          {"own-er/name", Hub::datasets,
           "check the path: there is no own-er; if it is a name of the Hugging Face hub, download it first: `hf download own-er/name --repo-type dataset --local-dir name`, then name that folder"},
          {"own-er/name", Hub::none, "check the path: there is no own-er"},
          {"own-er/name/more", Hub::models, "check the path: there is no own-er"},
          {"./own-er/name", Hub::models, "check the path: there is no ./own-er"},
          {"/own-er/name", Hub::models, "check the path: there is no /own-er"},
          {"zzqqzzqq", Hub::models,
           "check the path; if it is a name of the Hugging Face hub, download it first: `hf download zzqqzzqq --local-dir zzqqzzqq`, then name that folder"},
          {"zzqqzz.qq", Hub::models, "check the path"},
          {"zzqqzzqq", Hub::none, "check the path"},
          {"https://huggingface.co/a/b/tree/main", Hub::none,
           "download it first: `hf download a/b --local-dir b`, then name that folder"},
          {"https://hf.co/datasets/a/b", Hub::models,
           "download it first: `hf download a/b --repo-type dataset --local-dir b`, then name that folder"},
          {"hf://gpt2", Hub::datasets,
           "download it first: `hf download gpt2 --repo-type dataset --local-dir gpt2`, then name that folder"},
          {"s3://bucket/a b", Hub::models,
           "files are read from this machine: download it first (`aws s3 cp 's3://bucket/a b' .`), then name the file"}})
    EXPECT_EQ(missing_path_advice(path, hub), advice) << path;
}

TEST(ReadText, FilesAndPipesUpToTheirLimit) {
  Folder f;
  const std::string exact = f.write("a", std::string(40000, 'x')), empty = f.write("b", "");
  EXPECT_EQ(read_text(exact, 40000, "a list").size(), 40000u);
  EXPECT_EQ(read_text(empty, 0, "a list"), "");
  EXPECT_USER_ERROR(read_text(exact, 39999, "a list"),
                    "cannot read a list (" + exact +
                        "): it may have 39999 bytes at most, it has 40000; check that this is the file you meant");
  EXPECT_USER_ERROR(read_text(f.path.string(), 10, "a list"), "it is a folder; name a file in it");
  EXPECT_USER_ERROR(read_text("/dev/null", 10, "a list"), "it is neither a file nor a pipe");
  EXPECT_USER_ERROR(read_text(f / "aa", 10, "a list"), "No such file or directory; did you mean '" + exact + "'?");
  EXPECT_USER_ERROR(read_text(f.write("p", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), 1000, "a list"),
                    "a pointer of Git LFS, not the file");
  for (auto [size, limit] : {std::pair<size_t, int64_t>{50000, 50000}, {50000, 49999}}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::fcntl(ends[1], F_SETPIPE_SZ, 1 << 17);
    const std::string text(size, 'y');
    ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(size));
    ::close(ends[1]);
    const std::string path = "/proc/self/fd/" + std::to_string(ends[0]);
    if (static_cast<size_t>(limit) >= size) {
      EXPECT_EQ(read_text(path, limit, "a list"), text);
    } else {
      EXPECT_USER_ERROR(read_text(path, limit, "a list"), "it may have 49999 bytes at most, more came");
    }
    ::close(ends[0]);
  }
}

TEST(JsonFields, AreOfTheirKindOrRefused) {
  const Json j = parse_json(
      R"({"b": true, "i": -7, "big": 9223372036854775807, "over": 9223372036854775808, "d": 1.5, "s": "x", "o": {"a": 1}, "l": [1], "n": null})",
      "here");
  EXPECT_EQ(field<bool>(j, "b", "w"), true);
  EXPECT_EQ(field<int64_t>(j, "i", "w"), -7);
  EXPECT_EQ(field<int64_t>(j, "big", "w"), INT64_MAX);
  EXPECT_EQ(field<double>(j, "i", "w"), -7.0);
  EXPECT_EQ(field<double>(j, "d", "w"), 1.5);
  EXPECT_EQ(field<std::string>(j, "s", "w"), "x");
  EXPECT_EQ(field<Json>(j, "o", "w")["a"], 1);
  EXPECT_EQ(array_field(j, "l", "w").size(), 1u);
  EXPECT_EQ(field_or<int64_t>(j, "none", "w", 5), 5);
  EXPECT_EQ(field_or<int64_t>(j, "i", "w", 5), -7);
  EXPECT_USER_ERROR(field<int64_t>(j, "over", "w"),
                    "field 'over' of the wrong kind (w): it must be a whole number of 64 bits, got number");
  EXPECT_USER_ERROR(field<int64_t>(j, "d", "w"), "a whole number of 64 bits");
  EXPECT_USER_ERROR(field<int64_t>(j, "b", "w"), "a whole number of 64 bits, got boolean");
  EXPECT_USER_ERROR(field<bool>(j, "i", "w"), "true or false");
  EXPECT_USER_ERROR(field<double>(j, "s", "w"), "a number, got string");
  EXPECT_USER_ERROR(field<std::string>(j, "n", "w"), "a text, got null");
  EXPECT_USER_ERROR(field<Json>(j, "l", "w"), "an object, got array");
  EXPECT_USER_ERROR(field_or<int64_t>(j, "s", "w", 5), "field 's' of the wrong kind");
  EXPECT_USER_ERROR(field<int64_t>(j, "none", "w"), "field 'none' is missing (w): it must be a whole number");
  EXPECT_USER_ERROR(array_field(j, "o", "w"), "it must be an array, got object");
  EXPECT_USER_ERROR(array_field(j, "none", "w"), "it must be an array, got none");
  EXPECT_USER_ERROR(field<bool>(Json::array(), "b", "w"), "not a JSON object (w)");
  // Equal keys are one, in the place of the first with the value of the last; others keep their order.
  EXPECT_EQ(parse_json(R"({"b": 1, "a": 2, "b": 3, "c": 4, "a": {"x": 1, "x": 2}, "b": 5})", "here").dump(),
            R"({"b":5,"a":{"x":2},"c":4})");
  EXPECT_USER_ERROR(parse_json("{\"a\": }", "here"), "not valid JSON (here)");
  EXPECT_USER_ERROR(parse_json("[1] 2", "here"), "not valid JSON (here)");
}

TEST(Clock, CountsSecondsOfTheSteadyClock) {
  auto steady = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  for (int i = 0; i < 100; ++i) {
    const double before = steady(), now = seconds_now();
    EXPECT_LE(before, now);
    EXPECT_LE(now, steady());
  }
}

TEST(Checked, NumbersThatDoNotFitAreRefused) {
  EXPECT_EQ(div_exact(12, 4), 3);
  EXPECT_THROW(div_exact(13, 4), Error);
  EXPECT_THROW(div_exact(13, 0), Error);
  for (auto [a, b, up] : {std::tuple<int64_t, int64_t, int64_t>{0, 4, 0}, {1, 4, 1}, {4, 4, 1}, {5, 4, 2}})
    EXPECT_EQ(ceil_div(a, b), up);
  EXPECT_EQ(round_up(5, 4), 8);
  EXPECT_EQ(round_up(8, 4), 8);
  EXPECT_EQ(narrow<int8_t>(-128), -128);
  EXPECT_THROW(narrow<int8_t>(128), Error);
  EXPECT_THROW(narrow<uint64_t>(int64_t{-1}), Error);
  EXPECT_THROW((narrow<int64_t, uint64_t>(UINT64_MAX)), Error);
  EXPECT_EQ(mul_checked(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_THROW(mul_checked(int64_t{1} << 32, int64_t{1} << 31), Error);
  EXPECT_THROW(add_checked(INT64_MAX, 1), Error);
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.count(), 24);
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s[-3], 2);
  EXPECT_EQ(s.text(), "[2, 3, 4]");
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_FALSE((s == Shape{2, 3}) || (s == Shape{2, 3, 5}) || !(s == Shape{2, 3, 4}));
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6}), Error);
  EXPECT_THROW((Shape{-1}), Error);
  const int before = thread_count();
  for (auto [requested, got] : {std::pair{0, 1}, {-3, 1}, {7, 7}, {kMaxThreads + 1, kMaxThreads}}) {
    set_thread_count(requested);
    EXPECT_EQ(thread_count(), got);
  }
  set_thread_count(before);
}

}  // namespace test_base
}  // namespace ravine
