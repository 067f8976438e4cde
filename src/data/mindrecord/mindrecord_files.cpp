#include "data/mindrecord/mindrecord_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "files/read_head.h"
#include "files/tensor_file.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHeader = uint64_t{64} << 20;  // limit of the bytes of JSON
constexpr uint64_t kValues = uint64_t{1} << 28;   // limit of a row
constexpr const char* kFix = "write the file again with mindspore.mindrecord.FileWriter";

uint64_t little(const std::byte* from, int bytes) {
  uint64_t v = 0;
  std::memcpy(&v, from, static_cast<size_t>(bytes));
  return v;
}
uint64_t big(const std::byte* from, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; ++i) v = v << 8 | static_cast<uint64_t>(from[i]);
  return v;
}
int64_t extended(uint64_t v, int bytes) {
  const int shift = 64 - 8 * bytes;
  return static_cast<int64_t>(v << shift) >> shift;
}

uint64_t count_field(const Json& object, const char* key, const std::string& where) {
  const auto n = field<int64_t>(object, key, where);
  if (n < 0) throw UserError(fmt::format("'{}' is {}", key, n), where, "it counts from 0", kFix);
  return static_cast<uint64_t>(n);
}

// Returns a list of texts; empty if the key is missing.
std::vector<std::string> texts_field(const Json& object, const char* key, const std::string& where) {
  std::vector<std::string> out;
  if (!object.is_object() || !object.contains(key)) return out;
  for (const Json& one : array_field(object, key, where)) {
    if (!one.is_string())
      throw UserError(fmt::format("'{}' is no list of texts", key), where, "it names columns or files", kFix);
    out.push_back(one.get<std::string>());
  }
  return out;
}

bool begins_as_one(std::string_view head) {
  if (head.size() < 32) return false;
  uint64_t n = 0;
  std::memcpy(&n, head.data(), 8);
  return n >= 2 && n <= kHeader && head[8] == '{' && head.substr(8).find("\"header_size\"") != std::string_view::npos;
}

}  // namespace

std::vector<std::string> mindrecord_files_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, error); !error && at != fs::recursive_directory_iterator();
       at.increment(error))
    if (std::error_code odd; at->is_regular_file(odd) && is_mindrecord_file(at->path().string()))
      out.push_back(at->path().string());
  std::sort(out.begin(), out.end());
  return out;
}

bool is_mindrecord_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && begins_as_one(read_head(path, 4096));
}

bool is_mindrecord_path(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) ? !mindrecord_files_in(path).empty() : is_mindrecord_file(path);
}

MindRecordFiles::MindRecordFiles(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const std::string& file : mindrecord_files_in(path))
      if (std::none_of(files_.begin(), files_.end(), [&](const MappedFile& f) {
            return fs::path(f.path()).lexically_normal() == fs::path(file).lexically_normal();
          }))
        for (const std::string& part : parts_of(file)) open(part);
    if (files_.empty())
      throw UserError("no MindRecord file", path, "the folder holds none", "name a folder that holds files of MindSpore");
    return;
  }
  for (const std::string& file : parts_of(path)) open(file);
}

MindRecordFiles::MindRecordFiles(const std::vector<std::string>& paths) {
  if (paths.size() == 1) {
    *this = MindRecordFiles(paths[0]);
    return;
  }
  for (const std::string& path : paths) open(path);
}

void MindRecordFiles::open(const std::string& path) {
  MappedFile file(path, MappedFile::Use::any);
  const std::span<const std::byte> bytes = file.bytes();
  const auto damaged = [&](const std::string& rule) { throw UserError("damaged MindRecord file", path, rule, kFix); };
  if (bytes.size() < 8) damaged("it is shorter than a header");
  if (const std::string_view head(reinterpret_cast<const char*>(bytes.data()), 8); std::all_of(
          head.begin(), head.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t' || (c >= ' ' && c <= '~'); }))
    throw UserError(
        "not a MindRecord file", path,
        head.find_first_of("[{") == head.find_first_not_of(" \t\r\n") ? "it is JSON" : "it is a text",
        "write a MindRecord of it with mindspore.mindrecord.FileWriter, or train on it as it is by `ravine train`, with data.train");
  const uint64_t length = little(bytes.data(), 8);
  if (length > kHeader || length > bytes.size() - 8)
    damaged(fmt::format("its header of {} bytes does not fit into it", length));
  const std::string where = path + ": header";
  const Json header = parse_json({reinterpret_cast<const char*>(bytes.data()) + 8, length}, where);
  if (!header.is_object()) damaged("its header is no object of JSON");
  const auto header_size = count_field(header, "header_size", where), page_size = count_field(header, "page_size", where);
  const bool empty = header.contains("page") && header["page"].is_null();  // a file without rows
  const Json none = Json::array();
  const Json &schemas = array_field(header, "schema", where), &pages = empty ? none : array_field(header, "page", where);
  if (schemas.size() != 1) damaged("its header needs one schema");
  const Json schema = field<Json>(schemas[0], "schema", where);
  const auto columns = texts_field(schemas[0], "blob_fields", where);
  if (columns.empty() || columns.size() > 64)
    throw UserError("no columns of numbers", path, "a column is an array, in the blob of a row",
                    "write input_ids with shape [-1]");
  std::vector<int> sizes;
  std::vector<std::string> types;
  for (const std::string& column : columns) {
    const Json type = field<Json>(schema, column.c_str(), where);
    const auto name = field<std::string>(type, "type", where);
    sizes.push_back(name == "int32" ? 4 : name == "int64" ? 8 : 0);
    types.push_back(name);
  }
  const bool packed = field_or(header, "compression_size", where, int64_t{0}) > 0;
  if (!files_.empty() && (columns != columns_ || sizes != sizes_ || packed != packed_))
    throw UserError("files of different kinds", path,
                    fmt::format("{} has columns {}", files_[0].path(), fmt::join(columns_, ", ")), "name one data set");
  columns_ = columns, sizes_ = sizes, types_ = types, packed_ = packed;
  other_columns_.clear();
  for (const auto& [column, type] : schema.items())
    if (std::find(columns.begin(), columns.end(), column) == columns.end())
      other_columns_[column] =
          type.is_object() && type.contains("type") && type["type"].is_string() ? type["type"].get<std::string>() : "";
  struct Page {
    int64_t first, end;
    uint64_t at, size;
  };
  std::vector<Page> blobs;
  uint64_t held = 0;  // by all pages; pages do not overlap
  for (const Json& p : pages) {
    if (field<std::string>(p, "page_type", where) != "BLOB_DATA") continue;
    const auto id = count_field(p, "page_id", where), size = count_field(p, "page_size", where);
    uint64_t at = 0;
    if (__builtin_mul_overflow(id, page_size, &at) || __builtin_add_overflow(at, header_size, &at) || at > bytes.size() ||
        size > bytes.size() - at)
      damaged(fmt::format("page {} ends behind the file: it was cut", id));
    if ((held += size) > bytes.size()) damaged("its pages hold more bytes than the file");
    blobs.push_back({field<int64_t>(p, "start_row_id", where), field<int64_t>(p, "end_row_id", where), at, size});
  }
  std::sort(blobs.begin(), blobs.end(), [](const Page& a, const Page& b) { return a.first < b.first; });
  int64_t number = 0;
  for (const Page& page : blobs) {
    if (page.first != number || page.end < page.first) damaged(fmt::format("its pages lack row {}", number));
    uint64_t at = page.at;
    const uint64_t end = page.at + page.size;
    for (; number < page.end; ++number) {
      if (end - at < 8) damaged(fmt::format("row {} ends behind its page", number));
      const uint64_t size = little(bytes.data() + at, 8);
      at += 8;
      if (size > end - at) damaged(fmt::format("row {} ends behind its page", number));
      rows_.push_back({static_cast<uint32_t>(files_.size()), at, size, number});
      at += size;
    }
  }
  files_.push_back(std::move(file));
}

// The files of a dataset are in one folder, and each names all of them in their order.
std::vector<std::string> MindRecordFiles::parts_of(const std::string& path) {
  const MappedFile file(path, MappedFile::Use::any);
  const std::span<const std::byte> bytes = file.bytes();
  const uint64_t length = bytes.size() < 8 ? 0 : little(bytes.data(), 8);
  if (length == 0 || length > kHeader || length > bytes.size() - 8) return {path};  // open() throws the error
  const Json header = parse_json({reinterpret_cast<const char*>(bytes.data()) + 8, length}, path + ": header");
  const std::vector<std::string> shards = texts_field(header, "shard_addresses", path + ": header");
  const fs::path folder = fs::path(path).parent_path(), own = fs::path(path).filename();
  std::vector<std::string> out;
  std::set<std::string> names;
  bool named = false;
  for (const std::string& shard : shards) {
    const fs::path name = fs::path(shard).filename();
    if (!names.insert(name.string()).second)
      throw UserError(fmt::format("part '{}' is there twice", printable(name.string())), path + ": shard_addresses",
                      "it names each file of the data set once, it names it twice", kFix);
    named = named || name == own;
    out.push_back(name == own ? path : (folder / name).string());
  }
  if (!named) return {path};  // the file was renamed
  std::error_code error;
  for (size_t i = 0; i < out.size(); ++i)
    if (!fs::exists(out[i], error))
      throw UserError("a file of the data set is missing", out[i], fmt::format("{} names it as its part {}", path, i),
                      "copy it beside the others");
  return out;
}

bool MindRecordFiles::has(const std::string& column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

std::vector<std::string> MindRecordFiles::paths() const {
  std::vector<std::string> out;
  for (const MappedFile& f : files_) out.push_back(f.path());
  return out;
}

std::string MindRecordFiles::row_name(int64_t row) const {
  const Row& r = rows_.at(static_cast<size_t>(row));
  return fmt::format("{} row {}", files_[r.file].path(), r.number);
}

std::vector<int64_t> MindRecordFiles::values(int64_t row, const std::string& column) const {
  const Row& r = rows_.at(static_cast<size_t>(row));
  const std::byte* at = files_[r.file].bytes().data() + r.at;
  uint64_t left = r.size;
  const auto damaged = [&](const std::string& rule) {
    throw UserError("damaged row", row_name(row) + ": " + column, rule, kFix);
  };
  const auto index = static_cast<size_t>(std::find(columns_.begin(), columns_.end(), column) - columns_.begin());
  require(index < columns_.size(), "MindRecord: no column {}", column);
  const int width = sizes_[index];
  if (width == 0) throw UserError("a column of another type", row_name(row) + ": " + column, "ids are int32 or int64", kFix);
  if (columns_.size() > 1) {
    for (size_t i = 0;; ++i) {
      if (left < 8) damaged("it ends behind its row");
      const uint64_t size = big(at, 8);
      at += 8, left -= 8;
      if (size > left) damaged("it ends behind its row");
      if (i == index) {
        left = size;
        break;
      }
      at += size, left -= size;
    }
  }
  std::vector<int64_t> out;
  if (!packed_) {
    if (left % static_cast<uint64_t>(width) != 0) damaged(fmt::format("{} bytes are no numbers of {}", left, width));
    for (uint64_t i = 0; i < left; i += static_cast<uint64_t>(width)) out.push_back(extended(little(at + i, width), width));
    return out;
  }
  if (left < 4) damaged("it is shorter than its length");
  const uint64_t count = big(at, 4), map = (count + 3) / 4;
  if (count > kValues || map > left - 4) damaged(fmt::format("{} values do not fit into {} bytes", count, left));
  const std::byte* bits = at + 4;
  const std::byte* from = bits + map;
  left -= 4 + map;
  out.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const int bytes = 1 << (static_cast<unsigned>(bits[i / 4]) >> (2 * (3 - i % 4)) & 3U);
    if (left < static_cast<uint64_t>(bytes)) damaged(fmt::format("value {} ends behind its row", i));
    out.push_back(extended(little(from, bytes), bytes));
    from += bytes, left -= static_cast<uint64_t>(bytes);
  }
  return out;
}

}  // namespace ravine
