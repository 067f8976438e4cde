#include "io/given_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/missing_path.h"
#include "files/convert.h"
#include "files/mapped_file.h"
#include "files/npy.h"
#include "files/tensor_set.h"
#include "files/zip.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char* kMapFix = "write a map.json that names the parameter of each array: {\"grad_1\": \"NAME\", ..}";

using Array = GivenGradients::Array;

// Returns the bytes of an array in memory, from `offset` on.
std::vector<std::byte> part(std::span<const std::byte> all, int64_t offset, int64_t bytes) {
  const auto from = all.begin() + offset;
  return {from, from + bytes};
}

std::vector<Array> arrays_of_folder(const std::string& path) {
  std::vector<Array> out;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() != ".npy" || !entry.is_regular_file()) continue;
    const std::string file = entry.path().string();
    const NpyArray head = read_npy_header(file);
    out.push_back({entry.path().stem().string(), file, head.dtype, head.shape,
                   [file](int64_t offset, int64_t bytes) { return part(read_npy(file).bytes, offset, bytes); }});
  }
  std::sort(out.begin(), out.end(), [](const Array& a, const Array& b) { return a.name < b.name; });
  return out;
}

std::vector<Array> arrays_of_npz(const std::string& path) {
  const auto file = std::make_shared<MappedFile>(path);
  std::vector<Array> out;
  for (const ZipMember& m : parse_zip(file->bytes(), path)) {
    if (!m.name.ends_with(".npy")) continue;
    const std::string where = fmt::format("{}, '{}'", path, m.name);
    const auto bytes = file->bytes().subspan(static_cast<size_t>(m.begin), static_cast<size_t>(m.size));
    const NpyArray array = parse_npy(bytes, where);
    out.push_back({m.name.substr(0, m.name.size() - 4), where, array.dtype, array.shape,
                   [file, bytes, where](int64_t offset, int64_t n) { return part(parse_npy(bytes, where).bytes, offset, n); }});
  }
  return out;
}

std::vector<Array> arrays_of_tensors(const std::string& path) {
  const auto set = std::make_shared<TensorSet>(path);
  std::vector<Array> out;
  for (const auto& [name, placed] : set->tensors())
    out.push_back({name, tensor_at(placed.file->path(), name), placed.info->dtype, placed.info->shape,
                   [set, placed = placed](int64_t offset, int64_t bytes) {
                     std::vector<std::byte> to(static_cast<size_t>(bytes));
                     placed.file->read(*placed.info, offset, to);
                     return to;
                   }});
  return out;
}

// Returns the number at the end of a name, like 3 of grad_3.
std::optional<int64_t> number_of(const std::string& name) {
  size_t at = name.size();
  while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') --at;
  int64_t n = 0;
  const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), n);
  if (at == name.size() || error != std::errc() || name.find('.') != std::string::npos) return std::nullopt;
  return n;
}

}  // namespace

GivenGradients::GivenGradients(const std::string& path, const std::vector<Wanted>& params) : path_(path) {
  std::error_code error;
  if (!fs::exists(path, error))
    throw UserError("no such file or folder", path, "gradients of another program are read from it", missing_path_advice(path));
  const bool folder = fs::is_directory(path, error);
  map_path_ = folder ? (fs::path(path) / "map.json").string() : path + ".map.json";
  if (folder) arrays_ = arrays_of_folder(path);
  if (arrays_.empty()) arrays_ = path.ends_with(".npz") ? arrays_of_npz(path) : arrays_of_tensors(path);
  for (const Array& a : arrays_)
    if (!is_float(a.dtype))
      throw UserError(fmt::format("an array of {}", ravine::name(a.dtype)), a.where, "gradients are f64, f32, bf16 or f16",
                      "remove it, or store it so");
  if (arrays_.empty())
    throw UserError("no gradients", path, "it is a folder of grad_N.npy, or a .npz or safetensors file", "name such a one");
  pair(params);
  for (size_t i = 0; i < params.size(); ++i) {
    const int64_t steps = steps_of(arrays_[of_[i]], params[i]);
    if (steps_ > 0 && steps != steps_)
      throw UserError(fmt::format("{} steps of '{}', {} of others", steps, arrays_[of_[i]].name, steps_), arrays_[of_[i]].where,
                      "all parameters have gradients of the same steps", "cut the longer ones");
    steps_ = steps;
  }
}

// Returns the number of steps of an array for a parameter; 0: the shapes do not fit.
int64_t GivenGradients::steps_of(const Array& a, const Wanted& w) const {
  const int more = a.shape.rank() - w.shape.rank();
  if (more < 0 || more > 1) return 0;
  for (int d = 0; d < w.shape.rank(); ++d)
    if (a.shape[more + d] != w.shape[d]) return 0;
  return more == 1 ? a.shape[0] : 1;
}

void GivenGradients::pair(const std::vector<Wanted>& params) {
  if (arrays_.size() < params.size())
    throw UserError(fmt::format("{} arrays for {} parameters", arrays_.size(), params.size()), path_,
                    "each trained parameter needs a gradient", "store them all; tied parameters have one");
  if (!pair_by_map(params) && !pair_by_name(params)) pair_by_number(params);
  for (size_t i = 0; i < params.size(); ++i)
    if (steps_of(arrays_[of_[i]], params[i]) == 0)
      throw UserError(
          fmt::format("the array is {}", arrays_[of_[i]].shape.text()), arrays_[of_[i]].where,
          fmt::format("the gradient of '{}' is {}, or has one more dim for steps", params[i].name, params[i].shape.text()),
          "transpose or join it in the program that has stored it, or mend the map");
}

bool GivenGradients::pair_by_map(const std::vector<Wanted>& params) {
  std::error_code error;
  if (!fs::is_regular_file(map_path_, error)) return false;
  const Json map = read_json(map_path_);
  std::map<std::string, size_t> arrays;
  for (size_t i = 0; i < arrays_.size(); ++i) arrays[arrays_[i].name] = i;
  std::map<std::string, size_t> found;
  if (map.is_object())
    for (const auto& [key, value] : map.items()) {
      const auto a = arrays.find(key.ends_with(".npy") ? key.substr(0, key.size() - 4) : key);
      if (a == arrays.end() || !value.is_string())
        throw UserError(fmt::format("'{}' in the map", printable(key)), map_path_, "a map names arrays and their parameters",
                        fmt::format("name one of the arrays, like '{}'", arrays_.front().name));
      found[value.get<std::string>()] = a->second;
    }
  for (const Wanted& w : params) {
    const auto at = found.find(w.name);
    if (at == found.end())
      throw UserError(fmt::format("no array for '{}'", w.name), map_path_, "the map names an array for each trained parameter",
                      fmt::format("add \"ARRAY\": \"{}\"", w.name));
    of_.push_back(at->second);
  }
  how_ = "by map.json";
  return true;
}

bool GivenGradients::pair_by_name(const std::vector<Wanted>& params) {
  std::map<std::string, size_t> arrays;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    std::string name = arrays_[i].name;
    for (const char* prefix : {"g.", "grad.", "module."})
      if (name.starts_with(prefix)) name = name.substr(std::strlen(prefix));
    if (name.ends_with(".grad")) name.resize(name.size() - 5);
    arrays[name] = i;
  }
  std::vector<size_t> found;
  std::string missing;
  for (const Wanted& w : params) {
    const auto at = arrays.find(w.name);
    if (at != arrays.end())
      found.push_back(at->second);
    else if (missing.empty())
      missing = w.name;
  }
  if (!missing.empty() && !found.empty())
    throw UserError(fmt::format("no gradient of '{}'", missing), path_, "each trained parameter needs one",
                    fmt::format("add it, or {}", kMapFix));
  if (!missing.empty()) return false;
  of_ = std::move(found), how_ = "by name";
  return true;
}

void GivenGradients::pair_by_number(const std::vector<Wanted>& params) {
  std::map<int64_t, size_t> numbered;
  for (size_t i = 0; i < arrays_.size(); ++i)
    if (const auto n = number_of(arrays_[i].name)) numbered[*n] = i;
  const int64_t first = numbered.empty() ? 0 : numbered.begin()->first;
  const bool in_row = !numbered.empty() && numbered.size() == arrays_.size() && first <= 1 &&
                      numbered.rbegin()->first - first + 1 == static_cast<int64_t>(numbered.size());
  if (!in_row || arrays_.size() != params.size())
    throw UserError(fmt::format("{} arrays like '{}' for {} parameters like '{}'", arrays_.size(),
                                printable(arrays_.front().name), params.size(), params.front().name),
                    path_, "arrays have the names of parameters, or one number each, from 0 or from 1 on", kMapFix);
  std::vector<size_t> arrays, own(params.size()), grouped;
  for (const auto& [n, i] : numbered) arrays.push_back(i);
  for (size_t i = 0; i < own.size(); ++i) own[i] = i;
  grouped = own;
  std::stable_partition(grouped.begin(), grouped.end(), [&](size_t i) { return params[i].decays; });
  auto fits = [&](const std::vector<size_t>& order) {
    for (size_t i = 0; i < order.size(); ++i)
      if (steps_of(arrays_[arrays[i]], params[order[i]]) == 0) return false;
    return true;
  };
  auto take = [&](const std::vector<size_t>& order, const char* how) {
    of_.resize(params.size());
    for (size_t i = 0; i < order.size(); ++i) of_[order[i]] = arrays[i];
    how_ = fmt::format("numbered from {}, {}", first, how);
  };
  if (fits(own)) return take(own, "in the order of the parameters");
  if (fits(grouped)) return take(grouped, "parameters with weight decay first");
  std::vector<size_t> by_shape;
  for (const size_t a : arrays) {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < params.size(); ++i)
      if (steps_of(arrays_[a], params[i]) > 0) fitting.push_back(i);
    if (fitting.size() != 1)
      throw UserError(fmt::format("'{}' is {}, and {}", arrays_[a].name, arrays_[a].shape.text(),
                                  fitting.empty() ? std::string("no parameter has this shape")
                                                  : fmt::format("'{}' and '{}' have this shape", params[fitting[0]].name,
                                                                params[fitting[1]].name)),
                      arrays_[a].where,
                      "the order of the numbers is not that of the parameters, and shapes do not tell which is which", kMapFix);
    by_shape.push_back(fitting[0]);
  }
  std::vector<size_t> once = by_shape;
  std::sort(once.begin(), once.end());
  if (std::adjacent_find(once.begin(), once.end()) != once.end())
    throw UserError("two arrays of one parameter's shape", path_, "each parameter has one gradient", kMapFix);
  take(by_shape, "by their shapes");
}

std::vector<double> GivenGradients::read(size_t param, int64_t step) const {
  const Array& a = arrays_[of_[param]];
  const int64_t n = a.shape.count() / steps_, size = size_of(a.dtype);
  const std::vector<std::byte> bytes = a.read(step * n * size, n * size);
  std::vector<double> out(static_cast<size_t>(n));
  convert(a.dtype, bytes.data(), DType::f64, out.data(), n);
  for (const double x : out)
    if (!std::isfinite(x))
      throw UserError(fmt::format("a gradient of {}", x), a.where, "an update needs numbers", "store another step");
  return out;
}

}  // namespace ravine
