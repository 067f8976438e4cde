#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "base/parallel.h"
#include "base/text.h"
#include "files/compressed.h"
#include "files/safetensors.h"
#include "io/checkpoint.h"
#include "io/convert/elements.h"
#include "io/manifest.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kRead = int64_t{4} << 20;  // bytes of one read
// Bytes; shorter runs are copied from the mapped file, as one system call each is too slow.
constexpr int64_t kShort = int64_t{16} << 10;
constexpr int64_t kMaxManifest = int64_t{1} << 30;  // bytes

[[noreturn]] void damaged(const std::string& where, const std::string& rule) {
  throw UserError("checkpoint is damaged", where, rule, "use another checkpoint");
}

}  // namespace

struct CheckpointReader::Impl {
  std::string dir;
  Manifest manifest;
  std::vector<std::unique_ptr<SafetensorsReader>> files;
  std::unordered_map<std::string_view, const Manifest::Tensor*> by_name;
  std::map<std::string, ElementsPtr> foreign;  // state of another program; there are no files then

  explicit Impl(ForeignState state) : dir(std::move(state.where)), foreign(std::move(state.tensors)) {
    manifest.step = state.step;
    manifest.scalars = std::move(state.scalars);
    for (const auto& [name, e] : foreign) manifest.tensors.push_back({name, e->dtype(), e->shape(), {}});
    for (const auto& t : manifest.tensors) by_name.emplace(t.name, &t);
  }

  explicit Impl(std::string folder) : dir(std::move(folder)) {
    const std::string path = dir + "/manifest.json";
    std::error_code error;
    if (!fs::is_directory(dir, error))
      throw UserError("cannot open checkpoint", dir, "it must be a folder step_N", "check the path");
    if (!fs::exists(path, error)) damaged(path, "the file is missing");
    manifest = parse_manifest(read_whole(path, kMaxManifest), path);
    fs::path named = fs::path(dir).lexically_normal();
    if (named.filename().empty()) named = named.parent_path();
    if (auto step = checkpoint_step(named.filename().string()); step && *step != manifest.step)
      damaged(path, fmt::format("the folder is of step {}, key 'step' says {}", *step, manifest.step));
    for (const auto& f : manifest.files) open_file(f);
    for (const auto& t : manifest.tensors) by_name.emplace(t.name, &t);
    check_tensors();
  }

  void open_file(const Manifest::File& f) {
    const std::string path = dir + "/" + f.name;
    std::error_code error;
    if (!fs::exists(path, error)) damaged(path, "the file is missing");
    int64_t size = 0;
    Fd fd = open_to_read(path, &size);
    if (size != f.bytes) damaged(path, fmt::format("the file has {} bytes, the manifest says {}", size, f.bytes));
    const SafetensorsReader& reader = *files.emplace_back(std::make_unique<SafetensorsReader>(path));
    std::vector<std::byte> header(static_cast<size_t>(reader.data_begin()));
    read_all_at(*fd, 0, header, path);
    if (checksum_of(header) != f.header)
      damaged(path, fmt::format("the checksum of its header is {}, the manifest says {}", checksum_text(checksum_of(header)),
                                checksum_text(f.header)));
  }

  // Checks that every slice is stored as in the manifest, and that nothing else is stored.
  void check_tensors() const {
    std::vector<int64_t> used(files.size());
    for (const auto& t : manifest.tensors) {
      for (const auto& s : t.slices) {
        const SafetensorsReader& file = *files[s.file];
        const TensorInfo* info = file.find(s.stored);
        if (!info) damaged(tensor_at(file.path(), s.stored), "the manifest says that this file holds it");
        if (info->dtype != t.dtype || !(info->shape == s.box.shape))
          damaged(tensor_at(file.path(), s.stored), fmt::format("it is {} {}, the manifest says {} {}", name(info->dtype),
                                                                info->shape.text(), name(t.dtype), s.box.shape.text()));
        ++used[s.file];
      }
    }
    for (size_t i = 0; i < files.size(); ++i) {
      for (const TensorInfo& info : files[i]->tensors())
        if (info.name.starts_with(kPadding)) ++used[i];
      if (used[i] != static_cast<int64_t>(files[i]->tensors().size()))
        damaged(files[i]->path(),
                fmt::format("it holds {} tensors, the manifest knows {}", files[i]->tensors().size(), used[i]));
    }
  }

  void verify(bool alone) const {
    struct Part {
      const SafetensorsReader* file;
      const TensorInfo* info;
      const Manifest::Slice* slice;  // null: padding
    };
    std::vector<Part> parts;
    for (const auto& t : manifest.tensors)
      for (const auto& s : t.slices) parts.push_back({files[s.file].get(), files[s.file]->find(s.stored), &s});
    for (const auto& file : files)
      for (const TensorInfo& info : file->tensors())
        if (info.name.starts_with(kPadding)) parts.push_back({file.get(), &info, nullptr});
    std::vector<std::vector<std::byte>> scratch(alone ? 1 : static_cast<size_t>(thread_count()));
    auto check = [&](int64_t i, int thread) {
      const Part& p = parts[static_cast<size_t>(i)];
      auto& buffer = scratch[static_cast<size_t>(thread)];
      const int64_t bytes = p.info->end - p.info->begin;
      Checksum sum;
      for (int64_t done = 0; done < bytes; done += kRead) {
        buffer.resize(static_cast<size_t>(std::min(kRead, bytes - done)));
        p.file->read(*p.info, done, buffer);
        sum.update(buffer);
        if (!p.slice && std::any_of(buffer.begin(), buffer.end(), [](std::byte b) { return b != std::byte{0}; }))
          damaged(tensor_at(p.file->path(), p.info->name), "padding must be zero");
      }
      if (p.slice && sum.value() != p.slice->checksum)
        damaged(tensor_at(p.file->path(), p.info->name),
                fmt::format("its checksum is {}, the manifest says {}", checksum_text(sum.value()),
                            checksum_text(p.slice->checksum)));
    };
    if (!alone) return parallel_for_threads(static_cast<int64_t>(parts.size()), check);
    for (size_t i = 0; i < parts.size(); ++i) check(static_cast<int64_t>(i), 0);
  }

  const Manifest::Tensor& find(const std::string& name) const {
    auto it = by_name.find(name);
    if (it != by_name.end()) return *it->second;
    const std::string near = nearest(name, [&] {
      std::vector<std::string> all;
      for (const auto& t : manifest.tensors) all.push_back(t.name);
      return all;
    }());
    throw UserError("missing tensor", tensor_at(dir, name), "the checkpoint does not hold it",
                    near.empty() ? "resume with the model and optimizer it was made with"
                                 : fmt::format("the nearest it holds is '{}'", printable(near)));
  }
};

CheckpointReader::CheckpointReader(const std::string& dir, bool verify) : impl_(std::make_unique<Impl>(dir)) {
  if (verify) impl_->verify(false);
}
CheckpointReader::CheckpointReader(ForeignState state) : impl_(std::make_unique<Impl>(std::move(state))) {}
CheckpointReader::~CheckpointReader() = default;

std::string fault_in_checkpoint(const std::string& folder, bool whole) {
  try {
    const CheckpointReader::Impl checkpoint(folder);
    if (whole) checkpoint.verify(true);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

int64_t CheckpointReader::step() const { return impl_->manifest.step; }
const Json& CheckpointReader::scalars() const { return impl_->manifest.scalars; }
const std::string& CheckpointReader::program() const { return impl_->manifest.program; }
const std::string& CheckpointReader::instructions() const { return impl_->manifest.instructions; }
bool CheckpointReader::has(const std::string& name) const { return impl_->by_name.count(name) > 0; }
DType CheckpointReader::dtype(const std::string& name) const { return impl_->find(name).dtype; }
const Shape& CheckpointReader::shape(const std::string& name) const { return impl_->find(name).shape; }

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> out;
  for (const auto& t : impl_->manifest.tensors) out.push_back(t.name);
  return out;
}

void CheckpointReader::read(const std::string& name, TensorView into, const Shape& global,
                            const std::vector<int64_t>& begin) const {
  const Manifest::Tensor& t = impl_->find(name);
  const std::string where = tensor_at(impl_->dir, name);
  const bool foreign = !impl_->foreign.empty();
  if (t.dtype != into.dtype && !(foreign && is_float(t.dtype) && is_float(into.dtype)))
    throw UserError("checkpoint holds another type", where,
                    fmt::format("it is {}, this run needs {}", ravine::name(t.dtype), ravine::name(into.dtype)),
                    "resume with the precision it was made with");
  if (!(t.shape == global))
    throw UserError("checkpoint holds another shape", where,
                    fmt::format("it is {}, this run needs {}", t.shape.text(), global.text()),
                    "resume with the model it was made with");
  Box box{begin, into.shape};
  if (begin.empty()) box.begin.resize(static_cast<size_t>(global.rank()));
  bool inside = into.shape.rank() == global.rank() && static_cast<int>(box.begin.size()) == global.rank() && into.contiguous();
  for (int d = 0; inside && d < global.rank(); ++d) {
    const int64_t from = box.begin[static_cast<size_t>(d)];
    inside = from >= 0 && from <= global[d] && into.shape[d] <= global[d] - from;
  }
  require(inside, "CheckpointReader::read: the contiguous target of '{}' lies inside {}, got {}", name, global.text(),
          into.shape.text());

  if (foreign) {
    const ElementsPtr e = as_type(impl_->foreign.at(name), into.dtype);
    const Box whole{std::vector<int64_t>(static_cast<size_t>(global.rank())), global};
    std::vector<Run> runs;
    each_shared_run(whole, box, [&](const Run& r) { runs.push_back(r); });
    const int64_t size = size_of(into.dtype);
    parallel_for(static_cast<int64_t>(runs.size()), [&](int64_t i) {
      const Run& r = runs[static_cast<size_t>(i)];
      e->read(r.from, {static_cast<std::byte*>(into.data) + r.to * size, static_cast<size_t>(r.count * size)});
    });
    return;
  }

  struct Copy {
    const SafetensorsReader* file;
    const TensorInfo* info;
    int64_t from, to, bytes;
  };
  std::vector<std::vector<Copy>> chunks;  // of about kRead bytes
  int64_t filled = 0;
  auto add = [&](const Copy& c) {
    if (chunks.empty() || filled + c.bytes > kRead) {
      chunks.emplace_back();
      filled = 0;
    }
    chunks.back().push_back(c);
    filled += c.bytes;
  };
  const int64_t size = size_of(t.dtype);
  for (const auto& s : t.slices) {
    const SafetensorsReader* file = impl_->files[s.file].get();
    const TensorInfo* info = file->find(s.stored);
    each_shared_run(s.box, box, [&](const Run& r) {
      for (int64_t done = 0; done < r.count * size; done += kRead)
        add({file, info, r.from * size + done, r.to * size + done, std::min(kRead, r.count * size - done)});
    });
  }
  parallel_for(static_cast<int64_t>(chunks.size()), [&](int64_t i) {
    for (const Copy& c : chunks[static_cast<size_t>(i)]) {
      std::byte* target = static_cast<std::byte*>(into.data) + c.to;
      if (c.bytes < kShort && chunks[static_cast<size_t>(i)].size() > 1)
        std::memcpy(target, c.file->bytes(*c.info).data() + c.from, static_cast<size_t>(c.bytes));
      else
        c.file->read(*c.info, c.from, {target, static_cast<size_t>(c.bytes)});
    }
  });
}

}  // namespace ravine
