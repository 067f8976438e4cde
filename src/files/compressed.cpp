#include "files/compressed.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "files/fd.h"

namespace ravine {
namespace {

constexpr size_t kInput = size_t{1} << 18;
constexpr uint64_t kXzMemory = uint64_t{1} << 28;  // xz -9 needs 65 MiB

[[noreturn]] void refuse_stream(const std::string& path, const std::string& rule) {
  throw UserError("cannot decompress file", path, rule, "fetch or compress it again");
}

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(const std::string& path) : path_(path) {
    int64_t size;
    fd_ = open_to_read(path_, &size);
  }
  size_t read(std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size()) {
      const size_t n = read_some(*fd_, into.subspan(done), path_);
      if (n == 0) break;
      done += n;
    }
    consumed_ += static_cast<int64_t>(done);
    return done;
  }
  int64_t consumed() const override { return consumed_; }

 private:
  std::string path_;
  Fd fd_;
  int64_t consumed_ = 0;
};

// Reads the compressed bytes of a file, one buffer at a time.
class Input {
 public:
  explicit Input(const std::string& path) : path(path), buffer_(kInput) {
    int64_t size;
    fd_ = open_to_read(path, &size);
  }
  // Reads the next buffer into `data`; false at the end of the file. Call it only if `data` is empty.
  bool refill() {
    const size_t n = read_some(*fd_, buffer_, path);
    data = std::span(buffer_).first(n);
    any = any || n > 0;
    consumed += static_cast<int64_t>(n);
    return n > 0;
  }
  const std::string path;
  std::span<const std::byte> data;  // bytes not used yet
  bool any = false;                 // true if the file is not empty
  int64_t consumed = 0;

 private:
  Fd fd_;
  std::vector<std::byte> buffer_;
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(const std::string& path) : in_(path) {
    require(inflateInit2(&z_, 15 + 16) == Z_OK, "gzip: zlib cannot start on '{}'", path);
  }
  ~GzipSource() override { inflateEnd(&z_); }

  size_t read(std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size()) {
      if (in_.data.empty() && !in_.refill()) {
        if (inside_ || !in_.any) refuse_stream(in_.path, "the gzip data is truncated");
        break;
      }
      if (!inside_ && !next_member()) continue;
      z_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in_.data.data()));
      z_.avail_in = static_cast<uInt>(in_.data.size());
      const size_t room = std::min(into.size() - done, size_t{1} << 30);
      z_.next_out = reinterpret_cast<Bytef*>(into.data() + done);
      z_.avail_out = static_cast<uInt>(room);
      const int result = inflate(&z_, Z_NO_FLUSH);
      done += room - z_.avail_out;
      in_.data = in_.data.last(z_.avail_in);
      if (result == Z_STREAM_END)
        inside_ = false;
      else if (result != Z_OK && result != Z_BUF_ERROR)
        refuse_stream(in_.path, fmt::format("the gzip data is damaged: {}", z_.msg ? z_.msg : "unknown error"));
    }
    return done;
  }
  int64_t consumed() const override { return in_.consumed; }

 private:
  // Begins the next member; false if no data is left. Zeros between members are padding, as in gzip.
  bool next_member() {
    if (!first_) {
      while (!in_.data.empty() && in_.data.front() == std::byte{0}) in_.data = in_.data.subspan(1);
      if (in_.data.empty()) return false;
      inflateReset(&z_);
    }
    first_ = false;
    inside_ = true;
    return true;
  }

  Input in_;
  z_stream z_{};
  bool inside_ = false, first_ = true;
};

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(const std::string& path) : in_(path), z_(ZSTD_createDStream()) {
    require(z_ != nullptr, "zstd: out of memory for '{}'", path);
    ZSTD_DCtx_setParameter(z_.get(), ZSTD_d_windowLogMax, 27);
  }

  size_t read(std::span<std::byte> into) override {
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    while (out.pos < out.size) {
      // The decoder keeps the last byte of a frame until all output is taken: without input no output is left.
      if (in_.data.empty() && !in_.refill()) {
        if (unfinished_ || !in_.any) refuse_stream(in_.path, "the zstd data is truncated");
        break;
      }
      ZSTD_inBuffer in{in_.data.data(), in_.data.size(), 0};
      const size_t result = ZSTD_decompressStream(z_.get(), &out, &in);
      in_.data = in_.data.subspan(in.pos);
      if (ZSTD_isError(result))
        refuse_stream(in_.path, fmt::format("the zstd data is damaged or needs more memory: {}", ZSTD_getErrorName(result)));
      unfinished_ = result != 0;
    }
    return out.pos;
  }
  int64_t consumed() const override { return in_.consumed; }

 private:
  struct Free {
    void operator()(ZSTD_DStream* z) const { ZSTD_freeDStream(z); }
  };
  Input in_;
  std::unique_ptr<ZSTD_DStream, Free> z_;
  bool unfinished_ = false;
};

class XzSource : public ByteSource {
 public:
  explicit XzSource(const std::string& path) : in_(path) {
    require(lzma_stream_decoder(&z_, kXzMemory, LZMA_CONCATENATED) == LZMA_OK, "xz: liblzma cannot start on '{}'", path);
  }
  ~XzSource() override { lzma_end(&z_); }

  size_t read(std::span<std::byte> into) override {
    if (done_) return 0;
    z_.next_out = reinterpret_cast<uint8_t*>(into.data());
    z_.avail_out = into.size();
    while (z_.avail_out > 0) {
      const bool end = in_.data.empty() && !in_.refill();
      z_.next_in = reinterpret_cast<const uint8_t*>(in_.data.data());
      z_.avail_in = in_.data.size();
      const lzma_ret result = lzma_code(&z_, end ? LZMA_FINISH : LZMA_RUN);
      in_.data = in_.data.last(z_.avail_in);
      if (result == LZMA_STREAM_END) {
        done_ = true;
        break;
      }
      if (result == LZMA_BUF_ERROR && end) refuse_stream(in_.path, "the xz data is truncated");
      if (result != LZMA_OK && result != LZMA_BUF_ERROR) refuse_stream(in_.path, reason(result));
    }
    return into.size() - z_.avail_out;
  }
  int64_t consumed() const override { return in_.consumed; }

 private:
  static std::string reason(lzma_ret result) {
    switch (result) {
      case LZMA_FORMAT_ERROR:
        return "it is not xz data";
      case LZMA_DATA_ERROR:
        return "the xz data is damaged";
      case LZMA_MEMLIMIT_ERROR:
        return "it needs more than 256 MiB of memory; compress it with xz -9 or less";
      case LZMA_OPTIONS_ERROR:
        return "it uses an unknown option of xz";
      default:
        return fmt::format("liblzma error {}", static_cast<int>(result));
    }
  }
  Input in_;
  lzma_stream z_ = LZMA_STREAM_INIT;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  if (path.ends_with(".gz")) return std::make_unique<GzipSource>(path);
  if (path.ends_with(".zst")) return std::make_unique<ZstdSource>(path);
  if (path.ends_with(".xz")) return std::make_unique<XzSource>(path);
  return std::make_unique<PlainSource>(path);
}

std::string read_whole(const std::string& path, int64_t limit) {
  auto source = open_bytes(path);
  std::string text;
  for (size_t room = size_t{1} << 16;; room = std::min(room * 2, size_t{1} << 26)) {
    const size_t have = text.size();
    text.resize(have + room);
    const size_t n = source->read(std::as_writable_bytes(std::span(text).subspan(have)));
    text.resize(have + n);
    if (static_cast<int64_t>(text.size()) > limit)
      throw UserError("file is too large", path, fmt::format("at most {} bytes are read here", limit),
                      "check that this is the file you meant");
    if (n < room) return text;
  }
}

LineReader::LineReader(std::unique_ptr<ByteSource> source, std::string where, int64_t max_line)
    : source_(std::move(source)), where_(std::move(where)), max_line_(max_line), buffer_(size_t{1} << 16) {}

LineReader::LineReader(const std::string& path, int64_t max_line) : LineReader(open_bytes(path), path, max_line) {}

std::optional<std::string_view> LineReader::next() {
  size_t searched = begin_;
  for (;;) {
    const char* from = buffer_.data() + searched;
    const auto* newline = static_cast<const char*>(std::memchr(from, '\n', end_ - searched));
    const size_t length = (newline ? static_cast<size_t>(newline - buffer_.data()) : end_) - begin_;
    if (static_cast<int64_t>(length) > max_line_)
      throw UserError("line is too long", fmt::format("{}:{}", where_, line_ + 1), fmt::format("at most {} bytes", max_line_),
                      "check that this is a text file with one record per line");
    if (newline || (at_end_ && length > 0)) {
      std::string_view text(buffer_.data() + begin_, length);
      begin_ += length + (newline ? 1 : 0);
      cut_ = newline == nullptr;
      ++line_;
      return text;
    }
    if (at_end_) return std::nullopt;
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    searched = end_;
    if (end_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
    const std::span<char> room = std::span(buffer_).subspan(end_);
    const size_t n = source_->read(std::as_writable_bytes(room));
    end_ += n;
    at_end_ = n < room.size();
  }
}

}  // namespace ravine
