#include "probe/named_tensors.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "files/npy.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int kFolderDepth = 8;
constexpr const char* kNpyEnding = ".npy";

// Appends the paths of all .npy files in `folder`; only the first one if `first`.
void add_files(const fs::path& folder, const std::string& inside, int depth, bool first, std::vector<std::string>& to) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / inside, error)) {
    if (first && !to.empty()) return;
    const std::string name = entry.path().filename();
    if (entry.is_regular_file(error) && name.ends_with(kNpyEnding))
      to.push_back(inside + name);
    else if (depth > 0 && entry.is_directory(error) && !entry.is_symlink(error))
      add_files(folder, inside + name + "/", depth - 1, first, to);
  }
}

// True if x is before y, with numbers compared as numbers: layer.2 is before layer.10.
bool comes_before(const std::string& x, const std::string& y) {
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, k = 0;
  while (i < x.size() && k < y.size()) {
    if (digit(x[i]) && digit(y[k])) {
      size_t ie = i, ke = k;
      while (ie < x.size() && digit(x[ie])) ++ie;
      while (ke < y.size() && digit(y[ke])) ++ke;
      if (ie - i != ke - k) return ie - i < ke - k;
      if (const int c = x.compare(i, ie - i, y, k, ke - k); c != 0) return c < 0;
      i = ie, k = ke;
    } else if (x[i] != y[k]) {
      return x[i] < y[k];
    } else {
      ++i, ++k;
    }
  }
  return x.size() - i < y.size() - k;
}

}  // namespace

bool is_npy_folder(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  std::vector<std::string> files;
  add_files(path, "", kFolderDepth, true, files);
  return !files.empty();
}

NamedTensors::NamedTensors(const std::string& path) : path_(path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    file_ = std::make_unique<SafetensorsReader>(path);
    return;
  }
  std::vector<std::string> files;
  add_files(path, "", kFolderDepth, false, files);
  std::sort(files.begin(), files.end(), comes_before);
  for (const std::string& file : files) {
    const NpyArray head = read_npy_header(path + "/" + file);
    infos_.push_back(
        {.name = file.substr(0, file.size() - std::string(kNpyEnding).size()), .dtype = head.dtype, .shape = head.shape});
  }
}

const TensorInfo* NamedTensors::find(const std::string& name) const {
  if (file_) return file_->find(name);
  const auto it = std::lower_bound(infos_.begin(), infos_.end(), name,
                                   [](const TensorInfo& t, const std::string& n) { return comes_before(t.name, n); });
  return it != infos_.end() && it->name == name ? &*it : nullptr;
}

std::vector<std::byte> NamedTensors::bytes(const TensorInfo& t) const {
  if (!file_) return read_npy(path_ + "/" + t.name + kNpyEnding).bytes;
  const auto bytes = file_->bytes(t);
  return {bytes.begin(), bytes.end()};
}

}  // namespace ravine
