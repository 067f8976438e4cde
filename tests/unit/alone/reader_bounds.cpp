// Runs every reader on expensive inputs. Its memory is at most a fixed number of bytes per byte of the input, and its
// time does not grow with the square of the input. docs/reliability.md has the same table under "Bounds of readers".
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <new>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "config/load.h"
#include "data/history.h"
#include "data/records/open_records.h"
#include "data/source.h"
#include "data/token_store.h"
#include "files/compressed.h"
#include "files/mindspore_ckpt.h"
#include "files/npy.h"
#include "files/pickle.h"
#include "files/safetensors.h"
#include "files/torch_file.h"
#include "files/zip.h"
#include "infer/generation_config.h"
#include "infer/prompts.h"
#include "io/manifest.h"
#include "io/open_weights.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/tiers.h"
#include "text/tokenizers/json_tokenizer.h"
#include "text/tokenizers/llama_settings.h"
#include "text/tokenizers/sentencepiece_model.h"

namespace {

// Bytes that `new` has handed out and that were not given back, and the most of them since reset().
std::atomic<int64_t> g_live{0}, g_peak{0};

void* counted(size_t size) {
  void* p = std::malloc(size ? size : 1);
  if (!p) throw std::bad_alloc();
  const int64_t now = g_live += static_cast<int64_t>(malloc_usable_size(p));
  for (int64_t peak = g_peak; now > peak && !g_peak.compare_exchange_weak(peak, now);) {
  }
  return p;
}
void given_back(void* p) {
  if (p) g_live -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}

}  // namespace

void* operator new(size_t size) { return counted(size); }
void* operator new[](size_t size) { return counted(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return counted(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](size_t size, const std::nothrow_t& none) noexcept { return operator new(size, none); }
void operator delete(void* p) noexcept { given_back(p); }
void operator delete[](void* p) noexcept { given_back(p); }
void operator delete(void* p, size_t) noexcept { given_back(p); }
void operator delete[](void* p, size_t) noexcept { given_back(p); }

namespace ravine {
namespace {

using Input = std::string;

struct Reader {
  const char* name;
  std::function<void(const Input&)> read;  // may refuse with a UserError, nothing else
  std::function<Input(int64_t)> make;      // about so many bytes, as expensive as they can be
  double bytes_per_byte;                   // at most held, the input itself not counted
  int64_t size = 200'000;                  // of the first input; the second has four times as many bytes
};

constexpr int64_t kFixed =
    int64_t{12} << 20;  // that a reader may hold whatever it reads: buffers, tables of Unicode, a cache of words

std::string many(int64_t bytes, const std::function<std::string(int64_t)>& item) {
  std::string s;
  for (int64_t i = 0; static_cast<int64_t>(s.size()) < bytes; ++i) s += item(i);
  return s;
}
std::string repeat(std::string_view text, int64_t bytes) {
  std::string s;
  while (static_cast<int64_t>(s.size()) < bytes) s += text;
  return s;
}
std::string listed(int64_t bytes, const std::function<std::string(int64_t)>& item) {
  return many(bytes, [&](int64_t i) { return (i ? "," : "") + item(i); });
}
std::string le(uint64_t v, int width) {
  std::string s;
  for (int i = 0; i < width; ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}
std::span<const std::byte> bytes_of(const Input& s) { return std::as_bytes(std::span(s)); }

const TemporaryFolder& scratch() {
  static const TemporaryFolder folder;
  return folder;
}
std::string file(const std::string& name, const Input& bytes) {
  spill(scratch() / name, bytes);
  return scratch() / name;
}

// A zip of stored members, as torch.save writes it.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out, directory;
  for (const auto& [name, body] : members) {
    const std::string common = le(0, 2) + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(body.size(), 4) + le(body.size(), 4) +
                               le(name.size(), 2) + le(0, 2);
    directory += le(0x02014b50, 4) + le(20, 2) + le(20, 2) + common + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) +
                 le(out.size(), 4) + name;
    directory.replace(directory.size() - name.size() - 46 + 6, 0, "");
    out += le(0x04034b50, 4) + le(20, 2) + common + name + body;
  }
  const size_t at = out.size();
  return out + directory + le(0x06054b50, 4) + le(0, 4) + le(members.size(), 2) + le(members.size(), 2) +
         le(directory.size(), 4) + le(at, 4) + le(0, 2);
}
std::string torch_zip(const std::string& pickle, int64_t storage) {
  return zip_of(
      {{"a/data.pkl", pickle}, {"a/byteorder", "little"}, {"a/data/0", std::string(static_cast<size_t>(storage), 'x')}});
}
std::string put(uint32_t at) { return "r" + le(at, 4); }
std::string get(uint32_t at) { return "j" + le(at, 4); }
std::string text_op(const std::string& s) { return "X" + le(s.size(), 4) + s; }
std::string number_op(int64_t v) { return "J" + le(static_cast<uint64_t>(v), 4); }
// A u8 tensor of storage '0' (or `key`), its sizes and strides one number each.
std::string tensor_op(int64_t storage, int64_t size, int64_t stride, const std::string& key = text_op("0")) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text_op("storage") + "ctorch\nByteStorage\n" + key + text_op("cpu") +
         number_op(storage) + "tQ" + number_op(0) + "(" + number_op(size) + "t(" + number_op(stride) + "t\x89}tR";
}
void read_torch(const Input& s) {
  const TorchStateFile state(file("x.bin", s));
  for (const TensorInfo& t : state.tensors()) (void)state.bytes(t);
}

std::string tokenizer_json(const std::string& model, const std::string& more = "") {
  return R"({"version":"1.0",)" + more + R"("model":)" + model + "}";
}
const std::string kBpe = R"({"type":"BPE","vocab":{"a":0,"b":1},"merges":[]})";
const std::string kWords = R"({"type":"WordPiece","unk_token":"a","vocab":{"a":0,"b":1}})";

// A tokenizer.json at work: on a text, then back.
std::function<void(const Input&)> encode(std::string text, int64_t repeated = 0) {
  return [=](const Input& s) {
    auto t = make_tokenizer(read_tokenizer_json(s, "x.json"));
    auto ids = t->encode(repeated ? repeat(text, repeated) : text, true);
    t->decode(ids, false);
  };
}
// As many bytes of text as the tokenizer has.
std::function<void(const Input&)> encode_as_much(std::string text) {
  return [=](const Input& s) {
    auto t = make_tokenizer(read_tokenizer_json(s, "x.json"));
    t->encode(repeat(text, static_cast<int64_t>(s.size())), true);
  };
}
std::function<void(const Input&)> decode_as_much(int32_t id) {
  return [=](const Input& s) {
    auto t = make_tokenizer(read_tokenizer_json(s, "x.json"));
    t->decode(std::vector<int32_t>(s.size() / 4, id), false);
  };
}
// A short tokenizer and a long text.
std::function<void(const Input&)> encode_with(std::string json) {
  return [=](const Input& text) { make_tokenizer(read_tokenizer_json(json, "x.json"))->encode(text, true); };
}
std::string split_by(const std::string& regex) {
  return tokenizer_json(
      kWords, R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":)" + Json(regex).dump() + R"(},"behavior":"Isolated"},)");
}
std::string piece(const std::string& text) {
  std::string body = "\x0a", size;
  for (size_t n = text.size(); n || size.empty(); n >>= 7) size += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
  body += size + text;
  std::string out = "\x0a", length;
  for (size_t n = body.size(); n || length.empty(); n >>= 7) length += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
  return out + length + body;
}
const std::string kUnknownPiece("\x0a\x09\x0a\x05<unk>\x18\x02", 11);

void json(const Input& s) { parse_json(s, "x.json"); }
void records(const Input& s, const char* name) {
  auto reader = open_records(file(name, s), {.fields = {}});
  for (Record r; reader->next(r);) {
  }
}

const std::vector<Reader>& readers() {
  static const std::vector<Reader> table = {
      // JSON documents: config.json, generation_config.json, manifests, settings of tokenizers, indices.
      {"json: brackets", json, [](int64_t n) { return std::string(static_cast<size_t>(n), '['); }, 64},
      {"json: empty lists", json, [](int64_t n) { return "[" + listed(n, [](int64_t) { return "[]"; }) + "]"; }, 64},
      {"json: lists in lists", json,
       [](int64_t n) { return "[" + listed(n, [](int64_t) { return std::string(60, '[') + std::string(60, ']'); }) + "]"; },
       64},
      {"json: objects in objects", json,
       [](int64_t n) {
         return "[" + listed(n, [](int64_t) { return repeat(R"({"":)", 250) + "0" + std::string(50, '}'); }) + "]";
       },
       64},
      {"json: numbers", json, [](int64_t n) { return "[" + listed(n, [](int64_t) { return "0"; }) + "]"; }, 64},
      {"json: many keys", json,
       [](int64_t n) { return "{" + listed(n, [](int64_t i) { return fmt::format("\"{}\":0", i); }) + "}"; }, 64},
      {"json: one key many times", json, [](int64_t n) { return "{" + listed(n, [](int64_t) { return R"("":0)"; }) + "}"; },
       64},
      {"json: one long string that does not end", json,
       [](int64_t n) { return "\"" + std::string(static_cast<size_t>(n), 'a'); }, 64},
      {"weight index", [](const Input& s) { parse_weight_index(s, "x"); },
       [](int64_t n) {
         return R"({"weight_map":{)" + listed(n, [](int64_t i) { return fmt::format("\"{}\":\"a\"", i); }) + "}}";
       },
       64},
      {"manifest", [](const Input& s) { parse_manifest(seal_manifest(s), "x"); },
       [](int64_t n) {
         return R"({"checksum":"0000000000000000","scalars":{)" +
                listed(n, [](int64_t i) { return fmt::format("\"{}\":0", i); }) + "}}";
       },
       64},
      {"history", [](const Input& s) { DataHistory::from_json(parse_json(s, "x"), "x"); },
       [](int64_t n) {
         return R"({"sources":[],"segments":[)" +
                listed(n, [](int64_t i) { return fmt::format(R"({{"step":{},"sample":{},"global_batch":1}})", i, i); }) + "]}";
       },
       64},
      {"generation_config.json",
       [](const Input& s) {
         ModelFacts f;
         f.vocabulary = 300;
         parse_generation_config(parse_json(s, "x"), "x", f);
       },
       [](int64_t n) { return R"({"eos_token_id":[)" + listed(n, [](int64_t) { return "2"; }) + "]}"; }, 64},
      {"prompts: ids", [](const Input& s) { read_prompt_ids(file("p.json", s)); },
       [](int64_t n) { return "[" + listed(n, [](int64_t) { return "[]"; }) + "]"; }, 128},
      {"prompts: lines", [](const Input& s) { read_prompt_texts(file("p.txt", s), "text"); },
       [](int64_t n) { return std::string(static_cast<size_t>(n), '\n'); }, 128},
      // YAML.
      {"yaml: keys", [](const Input& s) { load_yaml(s, "x"); },
       [](int64_t n) { return many(n, [](int64_t i) { return fmt::format("{}: 0\n", i); }); }, 128},
      {"yaml: aliases of aliases", [](const Input& s) { load_yaml(s, "x"); },
       [](int64_t n) {
         return "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + many(n, [](int64_t i) {
                  return fmt::format("a{}: &a{} [{}*a{}]\n", i + 1, i + 1, repeat(fmt::format("*a{},", i), 60), i);
                });
       },
       128},
      {"yaml: merges", [](const Input& s) { load_yaml(s, "x"); },
       [](int64_t n) { return "a: &a {x: 1}\nb: {" + listed(n, [](int64_t) { return "<<: *a"; }) + "}\n"; }, 128},
      {"yaml: directives", [](const Input& s) { load_yaml(s, "x"); },
       [](int64_t n) { return many(n, [](int64_t i) { return fmt::format("%TAG !{}! x\n", i); }) + "--- a\n"; }, 128},
      {"yaml: depth", [](const Input& s) { load_yaml(s, "x"); },
       [](int64_t n) { return std::string(static_cast<size_t>(n), '['); }, 128},
      {"yaml: an unknown key of any length", [](const Input& s) { parse_config(s, "x"); },
       [](int64_t n) { return "train:\n  ? " + std::string(static_cast<size_t>(n), 'a') + "\n  : 1\n"; }, 128},
      {"nearest word",
       [](const Input& s) {
         nearest(s, {s + "x", "abc"});
       },
       [](int64_t n) { return std::string(static_cast<size_t>(n), 'a'); }, 8},
      // Weights.
      {"safetensors: many tensors",
       [](const Input& s) { parse_safetensors_header(bytes_of(s), static_cast<int64_t>(s.size()), "x"); },
       [](int64_t n) {
         const std::string h =
             "{" +
             listed(n, [](int64_t i) { return fmt::format(R"("{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i); }) +
             "}";
         return le(h.size(), 8) + h;
       },
       32},
      {"safetensors: metadata",
       [](const Input& s) { parse_safetensors_header(bytes_of(s), static_cast<int64_t>(s.size()), "x"); },
       [](int64_t n) {
         const std::string h =
             R"({"__metadata__":{)" + listed(n, [](int64_t i) { return fmt::format(R"("{}":"")", i); }) + "}}";
         return le(h.size(), 8) + h;
       },
       32},
      {"npy: header", [](const Input& s) { parse_npy(bytes_of(s), "x"); },
       [](int64_t n) {
         const std::string h = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + repeat("1,", n) + "), }";
         return std::string("\x93NUMPY\x02\0", 8) + le(h.size(), 4) + h;
       },
       4},
      {"zip: many members", [](const Input& s) { parse_zip(bytes_of(s), "x"); },
       [](int64_t n) {
         std::vector<std::pair<std::string, std::string>> m;
         for (int64_t i = 0; i < std::min<int64_t>(n / 90, 65535); ++i) m.emplace_back(std::to_string(i), "");
         return zip_of(m);
       },
       16},
      {"pickle: lists", [](const Input& s) { Pickle(bytes_of(s), "x"); },
       [](int64_t n) { return std::string(static_cast<size_t>(n), ']') + "."; }, 256},
      {"pickle: memo", [](const Input& s) { Pickle(bytes_of(s), "x"); },
       [](int64_t n) { return "N" + std::string(static_cast<size_t>(n), '\x94') + "."; }, 256},
      {"pickle: marks", [](const Input& s) { Pickle(bytes_of(s), "x"); },
       [](int64_t n) { return std::string(static_cast<size_t>(n), '(') + "."; }, 256},
      {"pickle: long names called often", [](const Input& s) { Pickle(bytes_of(s), "x"); },
       [](int64_t n) {
         return "c" + std::string(static_cast<size_t>(n / 2), 'a') + "\nb\nq\x01" + repeat("0h\x01)R", n / 2) + ".";
       },
       256},
      {"pickle: looked up by every key",
       [](const Input& s) {
         Pickle p(bytes_of(s), "x");
         for (size_t i = 0; i < p.items(p.root()).size(); i += 2) p.find(p.root(), *p.text(p.items(p.root())[i]));
       },
       [](int64_t n) { return "}(" + many(n, [](int64_t i) { return text_op(std::to_string(i)) + "N"; }) + "u."; }, 256},
      {"torch: one dict in many places", read_torch,
       [](int64_t n) {
         std::string p =
             "}(" + many(n / 2, [](int64_t i) { return text_op(std::to_string(i)) + tensor_op(8, 8, 1); }) + "u" + put(0) + "0";
         for (uint32_t level = 1; level <= 3; ++level) {
           p += "}(";
           for (int i = 0; i < 100; ++i)
             p += text_op(std::string(100, static_cast<char>('a' + level)) + std::to_string(i)) + get(level - 1);
           p += "u" + put(level) + "0";
         }
         return torch_zip(p + get(3) + ".", 8);
       },
       256},
      {"torch: a dict inside itself", read_torch,
       [](int64_t n) {
         return torch_zip("}" + put(0) + "(" + many(n, [](int64_t i) { return text_op(std::to_string(i)) + get(0); }) + "u.",
                          8);
       },
       256},
      {"torch: one storage in many tensors", read_torch,
       [](int64_t n) {
         return torch_zip(
             "}(" + many(n / 2, [&](int64_t i) { return text_op(std::to_string(i)) + tensor_op(n / 2, 60 * n / 2, 0); }) + "u.",
             n / 2);
       },
       256},
      {"torch: a long name of a storage", read_torch,
       [](int64_t n) {
         return torch_zip(text_op(std::string(static_cast<size_t>(n / 2), 'k')) + put(0) + "0}(" +
                              many(n / 2, [&](int64_t i) { return text_op(std::to_string(i)) + tensor_op(8, 8, 1, get(0)); }) +
                              "u.",
                          8);
       },
       256},
      {"MindSpore checkpoint", [](const Input& s) { parse_ckpt(bytes_of(s), "x"); },
       [](int64_t n) {
         return many(n, [](int64_t i) {
           const std::string tensor = std::string("\x08\x00\x12\x04Int8", 8), name = std::to_string(i),
                             value = "\x0a" + le(name.size(), 1) + name + "\x12" + le(tensor.size(), 1) + tensor;
           return "\x0a" + le(value.size(), 1) + value;
         });
       },
       64},
      // Records.
      {"csv: columns", [](const Input& s) { records(s, "x.csv"); },
       [](int64_t n) { return listed(n, [](int64_t i) { return std::to_string(i); }) + "\n"; }, 64,
       85'000},  // the second has 58,000 columns, and 65,536 are allowed
      {"csv: empty columns", [](const Input& s) { records(s, "x.csv"); },
       [](int64_t n) { return std::string(static_cast<size_t>(n), ','); }, 64},
      {"csv: empty fields", [](const Input& s) { records(s, "x.csv"); },
       [](int64_t n) { return "a,b\n" + std::string(static_cast<size_t>(n), ','); }, 64},
      {"csv: quotes", [](const Input& s) { records(s, "x.csv"); },
       [](int64_t n) { return "a\n\"" + std::string(static_cast<size_t>(n), '"'); }, 64},
      {"json records: brackets", [](const Input& s) { records(s, "x.json"); },
       [](int64_t n) { return "{\"a\":" + std::string(static_cast<size_t>(n), '['); }, 16},
      {"json records: an open string", [](const Input& s) { records(s, "x.json"); },
       [](int64_t n) { return "{\"" + std::string(static_cast<size_t>(n), 'a'); }, 16},
      {"jsonl: keys", [](const Input& s) { JsonlParser("text").parse(s, "x"); },
       [](int64_t n) { return "{" + listed(n, [](int64_t i) { return fmt::format("\"{}\":0", i); }) + "}"; }, 64},
      {"gzip: a small file of a long line",
       [](const Input& s) {
         LineReader r(file("x.txt.gz", s), int64_t{1} << 20);
         while (r.next()) {
         }
       },
       [](int64_t n) {
         const std::string plain(static_cast<size_t>(n) * 100, 'a');
         std::string out(compressBound(plain.size()) + 64, '\0');
         z_stream z{};
         deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
         z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data())), z.avail_in = static_cast<uInt>(plain.size());
         z.next_out = reinterpret_cast<Bytef*>(out.data()), z.avail_out = static_cast<uInt>(out.size());
         deflate(&z, Z_FINISH);
         out.resize(z.total_out);
         deflateEnd(&z);
         return out;
       },
       1},
      // Tokenizers.
      {"tokenizer.json: vocabulary", encode("a"),
       [](int64_t n) {
         return tokenizer_json(R"({"type":"BPE","merges":[],"vocab":{)" +
                               listed(n, [](int64_t i) { return fmt::format("\"{}\":{}", i, i % 100); }) + "}}");
       },
       128},
      {"tokenizer.json: merges", encode("ab", 100000),
       [](int64_t n) {
         return tokenizer_json(R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[)" +
                               listed(n, [](int64_t) { return R"("a b")"; }) + "]}");
       },
       128},
      {"tokenizer.json: a long added token that begins everywhere", encode_as_much("a"),
       [](int64_t n) {
         return tokenizer_json(
             kBpe, R"("added_tokens":[)" +
                       fmt::format(R"({{"id":0,"content":"{}b"}})", std::string(static_cast<size_t>(n), 'a')) + "],");
       },
       512, 20'000},
      {"tokenizer.json: many added tokens", encode_as_much("<1"),
       [](int64_t n) {
         return tokenizer_json(kBpe, R"("added_tokens":[)" + listed(n, [](int64_t i) {
                                       return fmt::format(R"({{"id":0,"content":"<{}>"}})", i);
                                     }) + "],");
       },
       256},
      {"tokenizer.json: added tokens strip the same white space", encode_as_much(" "),
       [](int64_t n) {
         return tokenizer_json(kBpe, R"("added_tokens":[{"id":0,"content":" ","rstrip":true,"lstrip":true}],)") +
                std::string(static_cast<size_t>(n), ' ');
       },
       256},
      {"tokenizer.json: one Replace", encode("a", 20000),
       [](int64_t n) {
         return tokenizer_json(kBpe, R"("normalizer":{"type":"Replace","pattern":{"String":"a"},"content":")" +
                                         std::string(static_cast<size_t>(n), 'a') + "\"},");
       },
       256},
      {"tokenizer.json: Replace by a pattern", encode("a", 20000),
       [](int64_t n) {
         return tokenizer_json(kBpe, R"("normalizer":{"type":"Replace","pattern":{"Regex":"a"},"content":")" +
                                         std::string(static_cast<size_t>(n), 'a') + "\"},");
       },
       256},
      {"tokenizer.json: Replace in Sequences", encode("a", 2000),
       [](int64_t n) {
         std::string s =
             R"({"type":"Sequence","normalizers":[)" +
             listed(2000, [](int64_t) { return R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaa"})"; }) + "]}";
         for (int i = 0; i < 10; ++i) s = R"({"type":"Sequence","normalizers":[)" + s + "]}";
         return tokenizer_json(kBpe, R"("normalizer":)" + s + ",") + std::string(static_cast<size_t>(n), ' ');
       },
       256},
      {"tokenizer.json: a long Prepend for each added token", encode("a"),
       [](int64_t n) {
         return tokenizer_json(
             kBpe, R"("normalizer":{"type":"Prepend","prepend":")" + std::string(4000, 'b') + R"("},"added_tokens":[)" +
                       listed(n, [](int64_t i) { return fmt::format(R"({{"id":0,"content":"{}","normalized":true}})", i); }) +
                       "],");
       },
       256},
      {"tokenizer.json: a chain of normalizers", encode("a", 20000),
       [](int64_t n) {
         return tokenizer_json(kBpe, R"("normalizer":{"type":"Sequence","normalizers":[)" +
                                         listed(n, [](int64_t) { return R"({"type":"ByteLevel"})"; }) + "]},");
       },
       256},
      {"tokenizer.json: ids around a text", encode("a"),
       [](int64_t n) {
         return tokenizer_json(
             kWords, R"("post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},)" +
                         listed(n / 2, [](int64_t) { return R"({"SpecialToken":{"id":"a","type_id":0}})"; }) +
                         R"(],"pair":[],"special_tokens":{"a":{"id":"a","ids":[)" + listed(n / 2, [](int64_t) { return "0"; }) +
                         R"(],"tokens":[]}}},)");
       },
       256},
      {"tokenizer.json: a decoder that doubles", encode("a"),
       [](int64_t n) {
         return tokenizer_json(
                    kWords,
                    R"("decoder":{"type":"Sequence","decoders":[)" +
                        listed(4000, [](int64_t) { return R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})"; }) +
                        "]},") +
                std::string(static_cast<size_t>(n), ' ');
       },
       256},
      {"tokenizer.json: a decoder looks for a long text", decode_as_much(0),
       [](int64_t n) {
         return tokenizer_json(
             kWords, R"("decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":")" +
                         std::string(static_cast<size_t>(n), 'a') + R"(b"},"content":""}]},)");
       },
       256, 50'000},
      {"tokenizer.json: a decoder strips a long end", decode_as_much(0),
       [](int64_t n) {
         return tokenizer_json(
                    kWords,
                    R"("decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":"a","start":0,"stop":2000000000}]},)") +
                std::string(static_cast<size_t>(n), ' ');
       },
       256},
      {"tokenizer.json: WordPiece of long pieces", encode_as_much("a"),
       [](int64_t n) {
         return tokenizer_json(
             R"({"type":"WordPiece","unk_token":"a","max_input_chars_per_word":2000000000,"continuing_subword_prefix":"##","vocab":{"a":0,"##a":1,"##)" +
             std::string(static_cast<size_t>(n), 'a') + "b\":2}}");
       },
       256, 20'000},
      {"tokenizer.json: WordPiece of pieces as long as they may be", encode_as_much("a"),
       [](int64_t n) {
         return tokenizer_json(
                    R"({"type":"WordPiece","unk_token":"a","max_input_chars_per_word":2000000000,"continuing_subword_prefix":"##","vocab":{"a":0,"##a":1,"##)" +
                    std::string(1000, 'a') + "b\":2}}") +
                std::string(static_cast<size_t>(n), ' ');
       },
       256, 20'000},
      {"tokenizer.json: Unigram of long pieces", encode_as_much("a"),
       [](int64_t n) {
         return tokenizer_json(R"({"type":"Unigram","unk_id":0,"vocab":[["a",-1],[")" +
                               std::string(static_cast<size_t>(n), 'a') + "b\",-1]]}");
       },
       256, 20'000},
      {"tokenizer.json: BPE of a long word", encode_as_much("a"),
       [](int64_t n) {
         return tokenizer_json(R"({"type":"BPE","vocab":{"a":0,"aa":1,"aaa":2,"aaaa":3},"merges":["a a","aa a","aa aa"]})") +
                std::string(static_cast<size_t>(n), ' ');
       },
       256},
      {"a pattern that looks ahead", encode_with(split_by("a(?=.*b)")),
       [](int64_t n) { return std::string(static_cast<size_t>(n), 'a'); }, 256},
      {"a pattern that begins again at each place", encode_with(split_by("a(?=[^z]*[bc])")),
       [](int64_t n) { return std::string(static_cast<size_t>(n), 'a'); }, 256},
      {"a pattern that tries all ways", encode_with(split_by("(?:a|aa)+(?:c|d)")),
       [](int64_t n) { return std::string(static_cast<size_t>(n), 'a'); }, 256},
      {"a pattern with white space", encode_with(split_by("(?x) a * [bc]")),
       [](int64_t n) { return std::string(static_cast<size_t>(n), 'a'); }, 256},
      {"SentencePiece: many pieces", [](const Input& s) { parse_sentencepiece(s, "x", true); },
       [](int64_t n) { return kUnknownPiece + many(n, [](int64_t i) { return piece(std::to_string(i)); }); }, 256},
      {"SentencePiece: a long piece",
       [](const Input& s) { parse_sentencepiece(s, "x", true).encode(std::string(s.size(), 'a')); },
       [](int64_t n) { return kUnknownPiece + piece("a") + piece(std::string(static_cast<size_t>(n), 'a') + "b"); }, 256,
       20'000},
      {"settings of a Llama tokenizer: added tokens",
       [](const Input& s) {
         file("tokenizer_config.json", s);
         const LlamaSettings settings = load_llama_settings(scratch().path(), 300, [](const std::string&) { return -1; });
         settings.added.split(repeat("<1", static_cast<int64_t>(s.size()) / 4));
       },
       [](int64_t n) {
         return R"({"added_tokens_decoder":{)" +
                listed(n, [](int64_t i) { return fmt::format(R"("{}":{{"content":"<{}>"}})", i, i); }) + "}}";
       },
       256},
  };
  return table;
}

// CPU seconds; what it says when it refuses goes to `why`.
double seconds(const Reader& r, const Input& input, std::string* why) {
  timespec a{}, b{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
  try {
    r.read(input);
  } catch (const UserError& e) {
    *why = e.what();
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
  return static_cast<double>(b.tv_sec - a.tv_sec) + 1e-9 * static_cast<double>(b.tv_nsec - a.tv_nsec);
}

class ReaderBounds : public testing::TestWithParam<size_t> {};

TEST_P(ReaderBounds, MemoryAndTime) {
  mallopt(M_MMAP_MAX, 0),
      mallopt(M_TRIM_THRESHOLD, 1 << 30);  // the process keeps its memory: only the first run gets new pages
  const Reader& r = readers()[GetParam()];
  double best[2] = {1e9, 1e9};
  std::string why;
  for (int k = 0; k < 2; ++k) {
    const Input input = r.make(r.size << (2 * k));
    // Other processes slow down single runs. So there are three runs, and more of the larger input while it is too
    // slow.
    for (int i = 0; i < 3 || (k == 1 && i < 12 && best[1] >= 8 * best[0] + 0.05); ++i) {
      const int64_t before = g_live;
      g_peak = before;
      best[k] = std::min(best[k], seconds(r, input, &why));
      const auto most = kFixed + static_cast<int64_t>(r.bytes_per_byte * static_cast<double>(input.size()));
      ASSERT_LE(g_peak - before, most) << r.name << ": "
                                       << static_cast<double>(g_peak - before) / static_cast<double>(input.size())
                                       << " bytes per byte; " << why;
      if (best[k] > 20) break;  // once is enough to see it fail
    }
  }
  // The square would be 16 times the time; n log n is 4 and a little.
  EXPECT_LT(best[1], 8 * best[0] + 0.05) << r.name << ": " << best[0] << " s, for four times the input " << best[1] << " s; "
                                         << why;
  EXPECT_LT(why.size(), 2000u) << "an error is for people to read";
}

// Those that are due.
std::vector<size_t> drawn_readers() {
  std::vector<size_t> out;
  Drawn drawn(3);
  for (size_t i = 0; i < readers().size(); ++i)
    if (drawn(readers()[i].name)) out.push_back(i);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Each, ReaderBounds, testing::ValuesIn(drawn_readers()), [](const auto& info) {
  std::string name = readers()[info.param].name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

TEST(ReaderBounds, JsonIsAsDeepAsItMayBeAndNoDeeper) {
  for (const bool object : {false, true}) {
    auto nested = [&](int depth) {
      std::string s = "0";
      for (int i = 0; i < depth; ++i) s = object ? R"({"a":)" + s + "}" : "[" + s + "]";
      return s;
    };
    EXPECT_NO_THROW(parse_json(nested(kJsonDepth), "x.json")) << object;
    const std::string message = message_of<UserError>([&] { parse_json(nested(kJsonDepth + 1), "x.json"); });
    EXPECT_NE(message.find("nested too deeply"), std::string::npos) << object << message;
  }
}

// Few tensors, whose names are long and all said by one dict in ten places.
TEST(ReaderBounds, LongNamesOfOneDictAreRefused) {
  std::string p = "}(";
  for (int i = 0; i < 100; ++i) p += text_op(std::to_string(i)) + tensor_op(8, 8, 1);
  p += "u" + put(0) + "0}(";
  for (int i = 0; i < 10; ++i) p += text_op(std::string(900, static_cast<char>('a' + i))) + get(0);
  const std::string message = message_of<UserError>([&] { read_torch(torch_zip(p + "u.", 8)); });
  EXPECT_NE(message.find("one dict stands in many places"), std::string::npos) << message;
}

// A store that outgrows the memory says so before the system does.
TEST(ReaderBounds, TokensThatDoNotFitAreRefused) {
  const pid_t child = fork();
  if (child == 0) {
    long pages = 0;
    if (FILE* f = std::fopen("/proc/self/statm", "r")) {
      if (std::fscanf(f, "%ld", &pages) != 1) ::_exit(3);
      std::fclose(f);
    }
    const rlimit limit{static_cast<rlim_t>(pages) * 4096 + (rlim_t{400} << 20), RLIM_INFINITY};
    if (pages * 4096 > (int64_t{1} << 40) || setrlimit(RLIMIT_AS, &limit) != 0)
      ::_exit(0);  // a sanitizer's address space knows no limit
    TokenStore store(100);
    store.begin_file("big.txt.gz");
    const std::vector<int32_t> document(1 << 20, 7);
    try {
      for (int i = 0; i < 4000; ++i) store.append(document);
    } catch (const UserError& e) {
      const std::string text = e.what();
      ::_exit(text.find("big.txt.gz") != text.npos && text.find("ravine preprocess") != text.npos && store.tokens() > (60 << 20)
                  ? 0
                  : 2);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace ravine
