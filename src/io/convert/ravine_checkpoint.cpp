#include "io/convert/ravine_checkpoint.h"

#include <filesystem>

#include "config/config.h"
#include "files/compressed.h"
#include "files/safetensors.h"
#include "io/checkpoint.h"
#include "io/manifest.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr std::string_view kWeights = "weights/";
constexpr int64_t kMaxRunFile = int64_t{1} << 30;

// The config.json of the model that the run trains.
std::string run_model_config(const std::string& run) {
  const std::string yaml = run + "/config.yaml";
  if (!fs::exists(yaml)) return "";
  const Config c = load_config(yaml);
  const std::string path = c.model.path.empty() ? c.model.config : c.model.path;
  return fs::is_directory(path) ? path + "/config.json" : path;
}

}  // namespace

Weights read_ravine_checkpoint(const std::string& path, const Json& config, const std::string& config_where) {
  Weights w;
  std::string folder = path;
  if (!fs::exists(folder + "/manifest.json")) {
    const std::string checkpoints = fs::is_directory(path + "/checkpoints") ? path + "/checkpoints" : path;
    const auto newest = newest_checkpoint(checkpoints, [&](const std::string& text) { w.notes.push_back(text); });
    if (!newest) throw UserError("no checkpoint", checkpoints, "it must hold a folder step_N", "check the path");
    folder = *newest;
  }
  const Manifest m = parse_manifest(read_whole(folder + "/manifest.json", kMaxRunFile), folder + "/manifest.json");
  w.config = config;
  w.config_where = config_where;
  if (w.config.is_null()) {
    w.config_where = run_model_config((fs::absolute(folder).lexically_normal().parent_path().parent_path()).string());
    if (w.config_where.empty() || !fs::exists(w.config_where))
      throw UserError("no config", folder, "the run's config.yaml must name the model", "give --model-config CONFIG.json");
    w.config = read_json(w.config_where);
    w.folder = folder_of(w.config_where);
  }
  std::vector<std::shared_ptr<const SafetensorsReader>> files;
  for (const Manifest::File& f : m.files) {
    files.push_back(std::make_shared<SafetensorsReader>(folder + "/" + f.name));
    if (files.back()->file_size() != f.bytes)
      throw UserError("checkpoint is damaged", files.back()->path(),
                      fmt::format("the manifest says {} bytes, the file has {}", f.bytes, files.back()->file_size()),
                      "use another checkpoint");
  }
  for (const Manifest::Tensor& t : m.tensors) {
    if (!t.name.starts_with(kWeights)) continue;
    std::vector<Copy> copies;
    for (const Manifest::Slice& s : t.slices) {
      const TensorInfo& info = files[s.file]->tensor(s.stored);
      if (info.dtype != t.dtype || info.shape.count() != s.box.shape.count())
        throw UserError("checkpoint is damaged", fmt::format("{}: tensor '{}'", files[s.file]->path(), printable(s.stored)),
                        "its size or type is not what the manifest says", "use another checkpoint");
      const ElementsPtr e = stored(files[s.file], info);
      each_shared_run(s.box, {std::vector<int64_t>(static_cast<size_t>(t.shape.rank()), 0), t.shape}, [&](const Run& r) {
        copies.push_back({e, r.from, 0, r.to, 0, 1, r.count});
      });
    }
    w.add(t.name.substr(kWeights.size()),
          assembled(t.shape, std::move(copies), t.slices.size() == 1 ? "as it is" : fmt::format("{} slices", t.slices.size())));
  }
  if (w.tensors.empty()) throw UserError("no weights", folder, "it must be a checkpoint of training", "check the path");
  return w;
}

}  // namespace ravine
