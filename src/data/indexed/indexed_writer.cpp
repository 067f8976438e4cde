#include "data/indexed/indexed_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "files/atomic.h"
#include "files/file_set.h"
#include "files/same_path.h"

namespace ravine {

namespace fs = std::filesystem;

namespace {

constexpr size_t kBuffer = 1 << 20;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Appends the numbers as T. Returns the index of the first number that T cannot hold, or ids.size().
template <class T>
size_t append(std::span<const int32_t> ids, std::vector<std::byte>& out) {
  const size_t had = out.size();
  out.resize(had + ids.size() * sizeof(T));
  std::byte* to = out.data() + had;
  bool good = true;
  for (size_t i = 0; i < ids.size(); ++i, to += sizeof(T)) {
    const T value = static_cast<T>(ids[i]);
    good = good && static_cast<int64_t>(value) == static_cast<int64_t>(ids[i]);
    std::memcpy(to, &value, sizeof(T));
  }
  if (good) return ids.size();
  return static_cast<size_t>(
      std::find_if(ids.begin(), ids.end(),
                   [](int32_t id) { return static_cast<int64_t>(static_cast<T>(id)) != static_cast<int64_t>(id); }) -
      ids.begin());
}

size_t append(TokenType type, std::span<const int32_t> ids, std::vector<std::byte>& out) {
  switch (type) {
    case TokenType::u8:
      return append<uint8_t>(ids, out);
    case TokenType::i8:
      return append<int8_t>(ids, out);
    case TokenType::i16:
      return append<int16_t>(ids, out);
    case TokenType::u16:
      return append<uint16_t>(ids, out);
    case TokenType::i32:
      return append<int32_t>(ids, out);
    case TokenType::i64:
      return append<int64_t>(ids, out);
    case TokenType::f32:
    case TokenType::f64:
      break;
  }
  fail("index: ids are not stored as {}", name(type));
}

void rename_file(const std::string& from, const std::string& to, bool overwrite) {
  if (!overwrite && ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  if (!overwrite && errno == EEXIST)
    throw UserError("output exists", to, "it came while this was being written, and nothing is overwritten unasked",
                    "move it away, then the same command puts the new one there");
  if (!overwrite && errno != EINVAL && errno != ENOSYS) throw_system("rename file to", to, errno);
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system("rename file to", to, errno);
}

}  // namespace

void IndexedWriter::Part::open(const std::string& file, const int64_t* size) {
  path = file;
  if (!size) {
    fd = create_file(path);
    return;
  }
  fd = Fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) throw_system("open file", path, errno);
  struct stat s;
  if (::fstat(*fd, &s) != 0) throw_system("open file", path, errno);
  if (s.st_size < *size)
    throw UserError("the saved state of an earlier run is damaged", path,
                    fmt::format("it must hold at least {} bytes, got {}", *size, s.st_size), "begin anew with --restart");
  if (::ftruncate(*fd, *size) != 0 || ::lseek(*fd, 0, SEEK_END) != *size) throw_system("cut file", path, errno);
}

void IndexedWriter::Part::append(std::span<const std::byte> bytes) {
  if (buffer.size() + bytes.size() > kBuffer) flush();
  if (bytes.size() >= kBuffer)
    write_all(*fd, bytes, path);
  else
    buffer.insert(buffer.end(), bytes.begin(), bytes.end());
}

void IndexedWriter::Part::flush() {
  if (!buffer.empty()) write_all(*fd, buffer, path);
  buffer.clear();
}

// Maps the written file; an Error if another file has its name now.
MappedFile IndexedWriter::Part::mapped(int64_t size) const {
  struct stat s {
  }, named{};
  if (::fstat(*fd, &s) != 0) throw_system("read file", path, errno);
  const bool same = ::stat(path.c_str(), &named) == 0 && named.st_ino == s.st_ino && named.st_dev == s.st_dev;
  require(same && s.st_size == size, "index: '{}' holds the {} bytes that were written to it, got {}", path, size,
          same ? fmt::format("{}", s.st_size) : "another file of this name, or none: something else wrote to this folder");
  return MappedFile(path, fd, size, MappedFile::Use::sequential);
}

IndexedWriter::IndexedWriter(const std::string& folder, const std::string& name, TokenType type, bool modes,
                             const Position* from)
    : base_(folder + "/" + name), type_(type), width_(size_of(type)), has_modes_(modes) {
  bin_.open(base_ + ".bin", from ? &from->bin : nullptr);
  lengths_.open(base_ + ".lengths", from ? &from->lengths : nullptr);
  documents_.open(base_ + ".documents", from ? &from->documents : nullptr);
  if (modes) modes_.open(base_ + ".modes", from ? &from->modes : nullptr);
  if (from) position_ = *from;
}

void IndexedWriter::add_stored(std::span<const std::byte> tokens, std::span<const int32_t> lengths,
                               std::span<const int8_t> modes) {
  require(modes.size() == (has_modes_ ? lengths.size() : 0), "index: {} modes for {} sequences", modes.size(), lengths.size());
  bin_.append(tokens);
  lengths_.append(std::as_bytes(lengths));
  position_.bin += static_cast<int64_t>(tokens.size());
  position_.lengths += static_cast<int64_t>(lengths.size_bytes());
  if (has_modes_) modes_.append(std::as_bytes(modes)), position_.modes += static_cast<int64_t>(modes.size());
}

void IndexedWriter::end_document() {
  documents_.append(bytes_of(position_.sequences()));
  position_.documents += 8;
}

void StoredDocuments::add(TokenType type, std::span<const int32_t> ids, std::span<const int32_t> of_sequences,
                          const std::string& where) {
  require(std::accumulate(of_sequences.begin(), of_sequences.end(), int64_t{0}) == static_cast<int64_t>(ids.size()),
          "index: lengths do not sum up to {} ids", ids.size());
  if (size_t bad = append(type, ids, tokens); bad < ids.size())
    throw UserError(fmt::format("token {} does not fit", ids[bad]), where, fmt::format("the file holds {}", name(type)),
                    "choose a wider type, for example --dtype int32");
  lengths.insert(lengths.end(), of_sequences.begin(), of_sequences.end());
  sequences.push_back(static_cast<int32_t>(of_sequences.size()));
}

void IndexedWriter::add_documents(const StoredDocuments& d) {
  require(!has_modes_, "index: documents of a multimodal file need modes");
  int64_t at = position_.sequences();
  add_stored(d.tokens, d.lengths);
  for (int32_t n : d.sequences) {
    at += n;
    documents_.append(bytes_of(at));
    position_.documents += 8;
  }
}

void IndexedWriter::add_file(const IndexedFile& file) {
  auto refuse = [&](const std::string& what, const std::string& rule) {
    throw UserError(what, file.prefix() + ".idx", rule, "merge files of one kind");
  };
  if (file.type() != type_)
    refuse("types of tokens differ", fmt::format("the first file holds {}, this one {}", name(type_), name(file.type())));
  if (file.has_modes() != has_modes_) refuse("multimodal and plain data do not mix", "all files must have modes, or none");
  file.check();
  const int64_t before = position_.sequences();
  constexpr size_t kPiece = size_t{64} << 20;
  for (auto rest = file.all_bytes(); !rest.empty(); rest = rest.subspan(std::min(rest.size(), kPiece)))
    bin_.append(rest.first(std::min(rest.size(), kPiece)));
  for (auto rest = file.lengths(0, file.sequences()); !rest.empty(); rest = rest.subspan(std::min(rest.size(), kPiece)))
    lengths_.append(rest.first(std::min(rest.size(), kPiece)));
  for (int64_t d = 1; d <= file.documents(); ++d) documents_.append(bytes_of(before + file.document_begin(d)));
  if (has_modes_)
    for (int64_t i = 0; i < file.sequences(); ++i) modes_.append(bytes_of(file.mode(i)));
  position_.bin += static_cast<int64_t>(file.all_bytes().size());
  position_.lengths += 4 * file.sequences();
  position_.documents += 8 * file.documents();
  position_.modes += has_modes_ ? file.sequences() : 0;
}

IndexedWriter::Position IndexedWriter::flush(bool to_disk) {
  for (Part* p : {&bin_, &lengths_, &documents_, &modes_}) {
    if (!p->fd) continue;
    p->flush();
    if (to_disk) sync_fd(*p->fd, p->path);
  }
  return position_;
}

void IndexedWriter::finish() {
  flush(true);
  AtomicFile out(base_ + ".idx");
  const auto n = static_cast<uint64_t>(sequences()), d = static_cast<uint64_t>(documents()) + 1;
  const auto code = static_cast<uint8_t>(type_);
  const uint64_t version = 1;
  out.write(std::as_bytes(std::span(kIndexMagic, 9)));
  out.write(bytes_of(version));
  out.write(bytes_of(code));
  out.write(bytes_of(n));
  out.write(bytes_of(d));
  {
    const MappedFile lengths = lengths_.mapped(position_.lengths);
    out.write(lengths.bytes());
    int64_t at = 0;
    for (uint64_t i = 0; i < n; ++i) {
      int32_t length;
      out.write(bytes_of(at));
      std::memcpy(&length, lengths.bytes().data() + 4 * i, 4);
      at += length * width_;
    }
    require(at == position_.bin, "index: sequences take {} bytes, the token file has {}", at, position_.bin);
  }
  const int64_t zero = 0;
  out.write(bytes_of(zero));
  out.write(documents_.mapped(position_.documents).bytes());
  if (has_modes_) out.write(modes_.mapped(position_.modes).bytes());
  out.commit();
}

void IndexedWriter::publish(const std::string& folder, const std::string& name, const std::string& prefix, bool overwrite) {
  finish_file_set(indexed_journal(prefix),
                  // An interrupted replacement would otherwise be completed later, over these files.
                  indexed_set(prefix));
  for (const char* suffix : {".bin", ".idx"}) {
    const std::string from = folder + "/" + name + suffix;
    std::error_code ec;
    if (!fs::exists(from, ec)) continue;
    if (overwrite && suffix == std::string_view(".bin")) {  // an old index must not be read with new tokens
      refuse_folders(folder_of(prefix), indexed_set(prefix).files);
      if (::unlink((prefix + ".idx").c_str()) == 0)
        sync_folder(folder_of(prefix));
      else if (errno != ENOENT)
        throw_system("remove", prefix + ".idx", errno);
    }
    rename_file(from, prefix + suffix, overwrite);
  }
  sync_folder(folder_of(prefix));
}

void refuse_existing(const std::string& prefix, bool overwrite) {
  std::error_code ec;
  if (overwrite) return refuse_folders(folder_of(prefix), indexed_set(prefix).files);
  for (const char* suffix : {".bin", ".idx"})
    if (fs::exists(fs::symlink_status(prefix + suffix, ec)))
      throw UserError("output exists", prefix + suffix, "nothing is overwritten unasked",
                      "remove it, choose another prefix or add --overwrite");
}

void merge_indexed(const std::vector<std::string>& prefixes, const std::string& output_prefix, bool overwrite) {
  require(!prefixes.empty(), "merge: at least one file, got none");
  finish_file_set(indexed_journal(output_prefix), indexed_set(output_prefix));
  std::vector<IndexedFile> files;
  for (const std::string& path : prefixes) {
    std::string prefix;
    if (!is_indexed_prefix(path, &prefix))
      throw UserError("no token files", path, "PREFIX.bin and PREFIX.idx must be there", indexed_prefix_advice(path));
    files.emplace_back(prefix);
  }
  refuse_existing(output_prefix, overwrite);
  create_folders(folder_of(output_prefix));
  for (const IndexedFile& f : files)
    if (same_path(f.prefix() + ".bin", output_prefix + ".bin") || same_path(f.prefix() + ".idx", output_prefix + ".idx"))
      throw UserError("the output is an input", output_prefix, "what is read from is not written to",
                      "choose another --output-prefix");
  FileSet set(indexed_journal(output_prefix), indexed_set(output_prefix));
  const std::string name = output_prefix.substr(output_prefix.rfind('/') + 1);
  IndexedWriter writer(set.folder(), name, files[0].type(), files[0].has_modes());
  for (const IndexedFile& f : files) writer.add_file(f);
  writer.finish();
  for (const char* part : {".lengths", ".documents", ".modes"}) fs::remove(set.folder() + "/" + name + part);
  set.commit({name + ".bin", name + ".idx"}, overwrite);
}

}  // namespace ravine
