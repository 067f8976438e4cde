#include "io/manifest.h"

#include <set>
#include <unordered_map>

#include "files/checksum.h"
#include "files/safetensors.h"

namespace ravine {
namespace {

constexpr std::string_view kOpening = "{\"checksum\":\"";
constexpr size_t kDigits = 16;

[[noreturn]] void refuse(const std::string& where, const std::string& rule) {
  throw UserError("checkpoint is damaged", where, rule, "use another checkpoint");
}

uint64_t sum_of_text(std::string text) {
  text.replace(kOpening.size(), kDigits, kDigits, '0');
  return checksum_of(std::as_bytes(std::span(text)));
}

bool has_checksum_line(const std::string& text) {
  return text.size() > kOpening.size() + kDigits && text.starts_with(kOpening);
}

// Reads the fields of one JSON object. A field of a wrong type is a UserError.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse(where_, "it must be an object");
  }
  const Json& any(const char* key) const {
    auto it = object_.find(key);
    if (it == object_.end()) refuse(where_, fmt::format("key '{}' is missing", key));
    return *it;
  }
  int64_t integer(const char* key, int64_t high) const { return whole(any(key), key, high); }
  std::string text(const char* key) const {
    const Json& v = any(key);
    if (!v.is_string()) refuse(where_, fmt::format("key '{}' must be a string", key));
    return v.get<std::string>();
  }
  uint64_t checksum(const char* key) const {
    uint64_t value = 0;
    if (!parse_checksum(text(key), &value)) refuse(where_, fmt::format("key '{}' must be a checksum of 16 digits", key));
    return value;
  }
  const Json& array(const char* key) const {
    const Json& v = any(key);
    if (!v.is_array()) refuse(where_, fmt::format("key '{}' must be an array", key));
    return v;
  }
  std::vector<int64_t> integers(const char* key, size_t most) const {
    const Json& v = array(key);
    if (v.size() > most) refuse(where_, fmt::format("key '{}' must have at most {} numbers", key, most));
    std::vector<int64_t> out;
    for (const Json& x : v) out.push_back(whole(x, key, int64_t{1} << 48));
    return out;
  }
  Shape shape(const char* key) const {
    Shape s;
    int64_t count = 1;
    for (int64_t n : integers(key, 5)) {
      s.push_back(n);
      if (__builtin_mul_overflow(count, n, &count) || count > int64_t{1} << 48)
        refuse(where_, fmt::format("key '{}' is too large", key));
    }
    return s;
  }

 private:
  int64_t whole(const Json& v, const char* key, int64_t high) const {
    if (!v.is_number_integer() || (v.is_number_unsigned() && v.get<uint64_t>() > static_cast<uint64_t>(high)) ||
        v.get<int64_t>() < 0 || v.get<int64_t>() > high)
      refuse(where_, fmt::format("key '{}' must be a whole number from 0 to {}", key, high));
    return v.get<int64_t>();
  }
  const Json& object_;
  std::string where_;
};

Manifest::Slice read_slice(const Json& json, const std::string& where, const Manifest& m) {
  const Fields f(json, where);
  Manifest::Slice s;
  s.file = static_cast<size_t>(f.integer("file", int64_t{1} << 32));
  if (s.file >= m.files.size()) refuse(where, fmt::format("it names file {} of {}", s.file, m.files.size()));
  s.stored = f.text("stored");
  s.box = {f.integers("begin", 5), f.shape("shape")};
  s.checksum = f.checksum("checksum");
  return s;
}

Manifest parse(const std::string& text, const std::string& where) {
  if (!has_checksum_line(text)) refuse(where, "it must begin with its checksum");
  uint64_t sum = 0;
  if (!parse_checksum(std::string_view(text).substr(kOpening.size(), kDigits), &sum) || sum != sum_of_text(text))
    refuse(where, fmt::format("its checksum is {}, it says '{}'", checksum_text(sum_of_text(text)),
                              printable(std::string_view(text).substr(kOpening.size(), kDigits))));
  const Json json = parse_json(text, where);
  const Fields f(json, where);
  if (f.text("format") != "ravine-checkpoint") refuse(where, "key 'format' must be 'ravine-checkpoint'");
  if (const int64_t version = f.integer("version", int64_t{1} << 32); version < kOldestManifest || version > kManifestVersion)
    throw UserError(
        "checkpoint is of another format", where,
        fmt::format("this program reads versions {} to {}, it has version {}", kOldestManifest, kManifestVersion, version),
        "use the program that wrote it");
  Manifest m;
  m.step = f.integer("step", int64_t{1} << 48);
  m.program = f.text("program");
  m.instructions = f.text("instructions");
  m.scalars = f.any("scalars");
  if (!m.scalars.is_object()) refuse(where, "key 'scalars' must be an object");
  std::set<std::string> names;
  for (const Json& file : f.array("files")) {
    const Fields g(file, where + ": files");
    m.files.push_back({g.text("name"), g.integer("bytes", int64_t{1} << 60), g.checksum("header")});
    const std::string& name = m.files.back().name;
    if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "." ||
        name == ".." || !names.insert(name).second)
      refuse(where, fmt::format("file name '{}' must be plain and occur once", printable(name)));
  }
  std::set<std::string> tensors;
  std::set<std::pair<size_t, std::string>> stored;
  for (const Json& tensor : f.array("tensors")) {
    const std::string name = Fields(tensor, where + ": tensors").text("name");
    const std::string at = fmt::format("{}: tensor '{}'", where, printable(name));
    const Fields g(tensor, at);
    if (!tensors.insert(name).second) refuse(at, "it is described twice");
    const auto dtype = parse_dtype(g.text("dtype"));
    if (!dtype || file_name(*dtype) != g.text("dtype"))
      refuse(at, fmt::format("its type '{}' is not known", printable(g.text("dtype"))));
    Manifest::Tensor t{name, *dtype, g.shape("shape"), {}};
    for (const Json& slice : g.array("slices")) {
      t.slices.push_back(read_slice(slice, at, m));
      if (!stored.emplace(t.slices.back().file, t.slices.back().stored).second)
        refuse(at, fmt::format("stored tensor '{}' is used twice", printable(t.slices.back().stored)));
    }
    m.tensors.push_back(std::move(t));
  }
  return m;
}

}  // namespace

std::string seal_manifest(std::string text) {
  require(has_checksum_line(text), "seal_manifest: the text begins with a place for its checksum");
  return text.replace(kOpening.size(), kDigits, checksum_text(sum_of_text(text)));
}

std::string write_manifest(const Manifest& m) {
  std::string text = std::string(kOpening) + std::string(kDigits, '0');
  text += fmt::format(
      "\",\n\"format\":\"ravine-checkpoint\",\"version\":{},\"step\":{},\n\"program\":{},\"instructions\":{},\n\"files\":[",
      kManifestVersion, m.step, Json(m.program).dump(), Json(m.instructions).dump());
  const char* comma = "";
  for (const Manifest::File& f : m.files) {
    text += fmt::format("{}\n{{\"name\":{},\"bytes\":{},\"header\":\"{}\"}}", comma, Json(f.name).dump(), f.bytes,
                        checksum_text(f.header));
    comma = ",";
  }
  text += "],\n\"tensors\":[";
  comma = "";
  for (const Manifest::Tensor& t : m.tensors) {
    text += fmt::format("{}\n{{\"name\":{},\"dtype\":\"{}\",\"shape\":[{}],\"slices\":[", comma, Json(t.name).dump(),
                        file_name(t.dtype), fmt::join(t.shape.begin(), t.shape.end(), ","));
    comma = "";
    for (const Manifest::Slice& s : t.slices) {
      text += fmt::format("{}{{\"file\":{},\"stored\":{},\"begin\":[{}],\"shape\":[{}],\"checksum\":\"{}\"}}", comma, s.file,
                          Json(s.stored).dump(), fmt::join(s.box.begin, ","),
                          fmt::join(s.box.shape.begin(), s.box.shape.end(), ","), checksum_text(s.checksum));
      comma = ",";
    }
    text += "]}";
    comma = ",";
  }
  return seal_manifest(text + "],\n\"scalars\":" + m.scalars.dump() + "}\n");
}

std::string manifest_fault(const Manifest& m) {
  for (const Manifest::Tensor& t : m.tensors) {
    std::vector<Box> boxes;
    for (const Manifest::Slice& s : t.slices) boxes.push_back(s.box);
    if (const std::string why = cover_fault(t.shape, boxes); !why.empty())
      return fmt::format("tensor '{}': {}", printable(t.name), why);
  }
  return "";
}

Manifest parse_manifest(const std::string& text, const std::string& where) {
  Manifest m = parse(text, where);
  if (const std::string fault = manifest_fault(m); !fault.empty()) refuse(where, fault);
  return m;
}

Manifest parse_part(const std::string& text, const std::string& where) { return parse(text, where); }

void merge_part(Manifest& m, const Manifest& part) {
  const size_t files = m.files.size();
  m.files.insert(m.files.end(), part.files.begin(), part.files.end());
  std::unordered_map<std::string_view, size_t> by_name;
  for (size_t i = 0; i < m.tensors.size(); ++i) by_name.emplace(m.tensors[i].name, i);
  std::vector<Manifest::Tensor> fresh;
  for (const Manifest::Tensor& t : part.tensors) {
    auto it = by_name.find(t.name);
    Manifest::Tensor* to =
        it == by_name.end() ? &fresh.emplace_back(Manifest::Tensor{t.name, t.dtype, t.shape, {}}) : &m.tensors[it->second];
    require(to->dtype == t.dtype && to->shape == t.shape, "merge_part: ranks agree on '{}', {} {}, got {} {}", t.name,
            name(to->dtype), to->shape.text(), name(t.dtype), t.shape.text());
    for (Manifest::Slice s : t.slices) {
      s.file += files;
      to->slices.push_back(std::move(s));
    }
  }
  for (auto& t : fresh) m.tensors.push_back(std::move(t));
}

}  // namespace ravine
