#include "files/zip.h"

#include <zlib.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "base/checked.h"
#include "base/parallel.h"
#include "files/tensor_file.h"

namespace ravine {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator = 0x07064b50;
constexpr uint64_t kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20, kCentralSize = 46, kLocalSize = 30;
constexpr uint64_t kMaxComment = 65535, kMaxMembers = 4'000'000;
constexpr uint64_t kAlign = 64;
constexpr int64_t kCrcPart = int64_t{1} << 20;  // bytes per checksum task

[[noreturn]] void refuse_zip(const std::string& where, const std::string& rule) {
  throw UserError("bad zip archive", where, rule, "download or save the file again");
}

// Reads little-endian fields from a buffer; every access is checked.
class Bytes {
 public:
  Bytes(std::span<const std::byte> data, const std::string& where) : data_(data), where_(where) {}
  uint64_t size() const { return data_.size(); }
  uint64_t get(uint64_t at, int width) const {
    if (at > size() || static_cast<uint64_t>(width) > size() - at)
      refuse_zip(where_, fmt::format("it ends inside a field at byte {}", at));
    uint64_t v = 0;
    for (int i = width - 1; i >= 0; --i) v = (v << 8) | std::to_integer<uint64_t>(data_[at + static_cast<uint64_t>(i)]);
    return v;
  }
  std::string_view text(uint64_t at, uint64_t count) const {
    if (at > size() || count > size() - at) refuse_zip(where_, fmt::format("it ends inside a name at byte {}", at));
    return {reinterpret_cast<const char*>(data_.data()) + at, count};
  }
  const std::string& where() const { return where_; }

 private:
  std::span<const std::byte> data_;
  const std::string& where_;
};

struct Directory {
  uint64_t count = 0, size = 0, offset = 0, end = 0;  // end: offset of the record that follows the directory
};

Directory find_directory(const Bytes& b) {
  if (b.size() < kEndSize)
    refuse_zip(b.where(), fmt::format("it ends with a directory of at least {} bytes, the file holds {}", kEndSize, b.size()));
  const uint64_t last = b.size() - kEndSize, first = last > kMaxComment ? last - kMaxComment : 0;
  uint64_t at = last;
  while (b.get(at, 4) != kEnd || at + kEndSize + b.get(at + 20, 2) != b.size()) {
    if (at == first) refuse_zip(b.where(), "it must end with a directory; the file is truncated or no archive");
    --at;
  }
  Directory d{b.get(at + 10, 2), b.get(at + 12, 4), b.get(at + 16, 4), at};
  uint64_t disk = b.get(at + 4, 2), directory_disk = b.get(at + 6, 2), here = b.get(at + 8, 2);
  if (at >= kLocatorSize && b.get(at - kLocatorSize, 4) == kLocator) {
    const uint64_t record = b.get(at - kLocatorSize + 8, 8);
    if (at < kLocatorSize + kEnd64Size || record > at - kLocatorSize - kEnd64Size || b.get(record, 4) != kEnd64)
      refuse_zip(b.where(), "its zip64 locator must point to the zip64 directory record");
    disk = b.get(record + 16, 4), directory_disk = b.get(record + 20, 4), here = b.get(record + 24, 8);
    d = {b.get(record + 32, 8), b.get(record + 40, 8), b.get(record + 48, 8), record};
  }
  if (disk != 0 || directory_disk != 0 || here != d.count) refuse_zip(b.where(), "archives of several disks are not supported");
  if (d.offset > d.end || d.size > d.end - d.offset)
    refuse_zip(b.where(),
               fmt::format("its directory says bytes {} + {}, of {} before its end record", d.offset, d.size, d.end));
  if (d.count > kMaxMembers || d.count > d.size / kCentralSize)
    refuse_zip(b.where(), fmt::format("its directory of {} bytes cannot hold {} members", d.size, d.count));
  return d;
}

// Replaces fields that refer to zip64 by the values in the extra field.
void read_zip64(const Bytes& b, uint64_t at, uint64_t extra, const std::string& member, uint64_t& size, uint64_t& packed,
                uint64_t* offset) {
  const bool need = size == 0xffffffff || packed == 0xffffffff || (offset && *offset == 0xffffffff);
  if (!need) return;
  const uint64_t end = at + extra;
  while (end - at >= 4) {
    const uint64_t id = b.get(at, 2), bytes = b.get(at + 2, 2);
    at += 4;
    if (bytes > end - at) refuse_zip(member, "its extra fields run past their end");
    if (id == 1) {
      uint64_t p = at;
      auto take = [&](uint64_t& field) {
        if (field != 0xffffffff) return;
        if (p + 8 > at + bytes) refuse_zip(member, "its zip64 field is too short");
        field = b.get(p, 8);
        p += 8;
      };
      take(size), take(packed);
      if (offset) take(*offset);
      return;
    }
    at += bytes;
  }
  refuse_zip(member, "it needs a zip64 field");
}

std::string le(uint64_t value, int width) {
  std::string s;
  for (int i = 0; i < width; ++i) s += static_cast<char>(value >> (8 * i));
  return s;
}

}  // namespace

bool looks_like_zip(std::span<const std::byte> file) {
  static const std::string where;
  return file.size() >= 4 && Bytes(file, where).get(0, 4) == kLocal;
}

std::vector<ZipMember> parse_zip(std::span<const std::byte> file, const std::string& where) {
  const Bytes b(file, where);
  const Directory d = find_directory(b);
  std::vector<ZipMember> members;
  std::vector<std::pair<uint64_t, uint64_t>> spans;  // ranges of headers and data in the file
  std::unordered_set<std::string_view> names;
  uint64_t at = d.offset;
  for (uint64_t i = 0; i < d.count; ++i) {
    if (d.offset + d.size - at < kCentralSize || b.get(at, 4) != kCentral)
      refuse_zip(where, fmt::format("entry {} of {} in its directory is damaged", i, d.count));
    const uint64_t flags = b.get(at + 8, 2), method = b.get(at + 10, 2);
    uint64_t packed = b.get(at + 20, 4), size = b.get(at + 24, 4), offset = b.get(at + 42, 4);
    const uint64_t name_size = b.get(at + 28, 2), extra = b.get(at + 30, 2), comment = b.get(at + 32, 2);
    if (name_size + extra + comment > d.offset + d.size - at - kCentralSize)
      refuse_zip(where, fmt::format("entry {} of its directory runs past the directory", i));
    const std::string_view name = b.text(at + kCentralSize, name_size);
    const std::string member = fmt::format("{}: member '{}'", where, printable(name));
    if (name.empty() || name.find('\0') != name.npos) refuse_zip(member, "a member has a name without zero bytes");
    if (!names.insert(name).second) refuse_zip(member, "the name occurs twice");
    read_zip64(b, at + kCentralSize + name_size, extra, member, size, packed, &offset);
    if (flags & 1) refuse_zip(member, "encrypted members are not supported");
    if (method != 0 || size != packed) refuse_zip(member, "members are stored, this one is compressed");
    if (offset > d.offset || kLocalSize > d.offset - offset || b.get(offset, 4) != kLocal)
      refuse_zip(member, fmt::format("no local header at byte {}", offset));
    const uint64_t local_name = b.get(offset + 26, 2), local_extra = b.get(offset + 28, 2);
    if (b.get(offset + 8, 2) != 0) refuse_zip(member, "its local header says that it is compressed");
    if (b.text(offset + kLocalSize, local_name) != name) refuse_zip(member, "its local header has another name");
    uint64_t local_packed = b.get(offset + 18, 4), local_size = b.get(offset + 22, 4);
    if (!(b.get(offset + 6, 2) & 8)) {  // else the sizes may follow the data
      read_zip64(b, offset + kLocalSize + local_name, local_extra, member, local_size, local_packed, nullptr);
      if (local_size != size)
        refuse_zip(member, fmt::format("its local header says {} bytes, the directory {}", local_size, size));
    }
    const uint64_t begin = offset + kLocalSize + local_name + local_extra;
    if (begin > d.offset || size > d.offset - begin)
      refuse_zip(member,
                 fmt::format("its {} bytes from byte {} leave the data before the directory at {}", size, begin, d.offset));
    members.push_back({std::string(name), static_cast<int64_t>(begin), static_cast<int64_t>(size)});
    spans.emplace_back(offset, begin + size);
    at += kCentralSize + name_size + extra + comment;
  }
  if (at != d.offset + d.size) refuse_zip(where, "its directory is longer than its entries");
  std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i)
    if (spans[i].first < spans[i - 1].second) refuse_zip(where, fmt::format("members overlap at byte {}", spans[i].first));
  return members;
}

ZipWriter::ZipWriter(std::string path, uint64_t zip64_from, bool straight)
    : file_(std::move(path), straight), zip64_from_(zip64_from) {}

void ZipWriter::begin(const std::string& name, int64_t size) {
  finish();
  require(size >= 0 && !name.empty() && name.size() < 60000, "ZipWriter::begin: a name and a size, got '{}' {}", name, size);
  Entry e{name, static_cast<uint64_t>(file_.size()), static_cast<uint64_t>(size), static_cast<uint32_t>(crc32(0, nullptr, 0))};
  const bool wide = large(e.size);
  std::string extra = wide ? le(1, 2) + le(16, 2) + le(e.size, 8) + le(e.size, 8) : "";
  const uint64_t data = e.offset + kLocalSize + name.size() + extra.size() + 4;
  const uint64_t fill = (kAlign - data % kAlign) % kAlign;
  extra += "FB" + le(fill, 2) + std::string(fill, 'Z');  // the padding field of torch
  const uint64_t shown = wide ? 0xffffffff : e.size;
  file_.write(le(kLocal, 4) + le(wide ? 45 : 20, 2) + le(0x0808, 2) + le(0, 2) + le(0, 2) + le(0x21, 2) + le(0, 4) +
              le(shown, 4) + le(shown, 4) + le(name.size(), 2) + le(extra.size(), 2) + name + extra);
  entries_.push_back(std::move(e));
  left_ = entries_.back().size;
  open_ = true;
}

void ZipWriter::write(std::span<const std::byte> bytes) {
  require(open_ && bytes.size() <= left_, "ZipWriter::write: {} bytes of the member are left, got {}", left_, bytes.size());
  // The CRCs of parts are computed in parallel and combined in order: the result is the CRC of the whole.
  const int64_t parts = ceil_div(static_cast<int64_t>(bytes.size()), kCrcPart);
  std::vector<uLong> sums(static_cast<size_t>(parts));
  auto part = [&](int64_t i) {
    return bytes.subspan(static_cast<size_t>(i * kCrcPart))
        .first(std::min(bytes.size() - static_cast<size_t>(i * kCrcPart), static_cast<size_t>(kCrcPart)));
  };
  parallel_for(parts, [&](int64_t i) {
    sums[static_cast<size_t>(i)] = crc32_z(0, reinterpret_cast<const Bytef*>(part(i).data()), part(i).size());
  });
  uLong& crc = sums.emplace_back(entries_.back().crc);
  for (int64_t i = 0; i < parts; ++i)
    crc = crc32_combine(crc, sums[static_cast<size_t>(i)], static_cast<z_off_t>(part(i).size()));
  entries_.back().crc = static_cast<uint32_t>(crc);
  file_.write(bytes);
  left_ -= bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view bytes) {
  begin(name, static_cast<int64_t>(bytes.size()));
  write(std::as_bytes(std::span(bytes)));
}

void ZipWriter::finish() {
  if (!open_) return;
  const Entry& e = entries_.back();
  require(left_ == 0, "ZipWriter: member '{}' is {} bytes short", e.name, left_);
  const int width = large(e.size) ? 8 : 4;
  file_.write(le(0x08074b50, 4) + le(e.crc, 4) + le(e.size, width) + le(e.size, width));
  open_ = false;
}

void ZipWriter::commit() {
  finish();
  const auto begin = static_cast<uint64_t>(file_.size());
  for (const Entry& e : entries_) {
    std::string fields;
    if (large(e.size)) fields += le(e.size, 8) + le(e.size, 8);
    if (large(e.offset)) fields += le(e.offset, 8);
    const std::string extra = fields.empty() ? "" : le(1, 2) + le(fields.size(), 2) + fields;
    const uint64_t size = large(e.size) ? 0xffffffff : e.size;
    file_.write(le(kCentral, 4) + le(45, 2) + le(extra.empty() ? 20 : 45, 2) + le(0x0808, 2) + le(0, 2) + le(0, 2) +
                le(0x21, 2) + le(e.crc, 4) + le(size, 4) + le(size, 4) + le(e.name.size(), 2) + le(extra.size(), 2) + le(0, 2) +
                le(0, 2) + le(0, 2) + le(0, 4) + le(large(e.offset) ? 0xffffffff : e.offset, 4) + e.name + extra);
  }
  const auto end = static_cast<uint64_t>(file_.size());
  const uint64_t count = entries_.size();
  const bool wide = large(begin) || large(end - begin) || count >= 0xffff;
  if (wide)
    file_.write(le(kEnd64, 4) + le(kEnd64Size - 12, 8) + le(45, 2) + le(45, 2) + le(0, 4) + le(0, 4) + le(count, 8) +
                le(count, 8) + le(end - begin, 8) + le(begin, 8) + le(kLocator, 4) + le(0, 4) + le(end, 8) + le(1, 4));
  file_.write(le(kEnd, 4) + le(0, 4) + le(wide ? 0xffff : count, 2) + le(wide ? 0xffff : count, 2) +
              le(wide ? 0xffffffff : end - begin, 4) + le(wide ? 0xffffffff : begin, 4) + le(0, 2));
  file_.commit();
}

}  // namespace ravine
