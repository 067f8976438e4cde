#include "io/convert/convert.h"

#include <filesystem>

#include "files/atomic.h"
#include "io/convert/deepspeed.h"
#include "io/convert/hf_folder.h"
#include "io/convert/megatron.h"
#include "io/convert/mindformers.h"
#include "io/convert/ravine_checkpoint.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

Weights read_source(WeightLayout layout, const ConvertOptions& o) {
  Json config;
  if (!o.model_config.empty()) config = read_json(o.model_config);
  switch (layout) {
    case WeightLayout::hf:
      return read_hf(o.input, config, o.model_config);
    case WeightLayout::megatron:
      return read_megatron(o.input, config, o.model_config, o.allow_unknown);
    case WeightLayout::deepspeed:
      return read_deepspeed(o.input, config, o.model_config);
    case WeightLayout::mindformers:
      return read_mindformers(o.input, config, o.model_config, o.allow_unknown);
    case WeightLayout::ravine:
      return read_ravine_checkpoint(o.input, config, o.model_config);
  }
  fail("read_source: every layout has a reader");
}

WeightLayout layout_of(const ConvertOptions& o, std::string* what) {
  if (!fs::exists(o.input)) throw UserError("no such file or folder", o.input, "it must exist", "check --input");
  for (WeightLayout l :
       {WeightLayout::hf, WeightLayout::megatron, WeightLayout::deepspeed, WeightLayout::mindformers, WeightLayout::ravine})
    if (o.from == name(l)) {
      *what = fmt::format("{} (--from)", o.from);
      return l;
    }
  const auto found = recognise(o.input);
  if (!found)
    throw UserError("unknown layout", o.input,
                    "it must be a Hugging Face folder, or a checkpoint of Megatron, DeepSpeed, MindFormers or Ravine",
                    "check the path, or give --from");
  *what = found->what;
  return found->layout;
}

void check_output(const std::string& output) {
  std::error_code error;
  if (fs::exists(output, error) && (!fs::is_directory(output, error) || !fs::is_empty(output, error)))
    throw UserError("output exists", output, "the folder must be new or empty", "choose another --output, or remove it");
}

DType written(const Elements& e, const ConvertOptions& o) { return o.dtype && is_float(e.dtype()) ? *o.dtype : e.dtype(); }

// One type for a whole Megatron checkpoint, as its arguments name one.
DType common_type(const Weights& w, const ConvertOptions& o) {
  const Elements& first = *w.tensors.begin()->second;
  for (const auto& [name, e] : w.tensors)
    if (written(*e, o) != written(first, o))
      throw UserError("weights of several types", e->where(),
                      fmt::format("it is {}, {} is {}", ravine::name(e->dtype()), first.where(), ravine::name(first.dtype())),
                      "give --dtype");
  return written(first, o);
}

}  // namespace

ConvertReport convert_weights(const ConvertOptions& o, const std::function<void(int64_t, int64_t)>& progress) {
  ConvertReport report;
  const WeightLayout layout = layout_of(o, &report.source);
  if (!o.dry_run) check_output(o.output);
  Weights w = read_source(layout, o);
  const bool to_megatron = o.to.starts_with("megatron-"), hf_to_hf = layout == WeightLayout::hf && o.to == "hf";
  // Families of other names can only stay in Hugging Face's spelling.
  const bool known = has_geometry(w.config);
  Geometry g;
  // Checkpoints of Ravine name parameters as Llama does whatever the family's files say.
  if (known || o.to != "hf" || o.resize_vocabulary > 0 || layout == WeightLayout::ravine) {
    if (w.config.is_null())
      throw UserError("no config", o.input, "the layout of weights needs it", "give --model-config CONFIG.json");
    g = geometry_of(w.config, w.config_where);
    for (auto it = w.tensors.begin(); it != w.tensors.end();) {  // files of the bare model lack its prefix
      const std::string& n = it->first;
      if (n.starts_with("layers.") || n.starts_with("embed_tokens.") || n.starts_with("norm.")) {
        const ElementsPtr e = it->second;
        const std::string full = "model." + n;
        it = w.tensors.erase(it);
        w.add(full, e);
      } else {
        ++it;
      }
    }
    split_joined(w, g);
    check_weights(w, g, o.allow_unknown);
  }
  if (o.resize_vocabulary > 0) {
    resize_vocabulary(w, o.resize_vocabulary);
    g.vocabulary = o.resize_vocabulary;
  }
  if (w.tensors.empty()) throw UserError("no weights", o.input, "it must hold tensors", "check the path");

  std::vector<NamedElements> tensors;
  std::vector<MegatronFile> files;
  DType dtype = DType::f32;
  const MegatronLayout megatron{o.to == "megatron-legacy" ? MegatronNames::legacy : MegatronNames::mcore, o.tensor, o.pipeline,
                                o.virtual_stages};
  auto row = [&](const std::string& file, const std::string& n, const Elements& e, DType d) {
    report.rows.push_back({file, n, std::string(name(d)), e.shape().text(), e.where()});
    report.bytes += e.count() * size_of(d);
  };
  if (to_megatron) {
    dtype = common_type(w, o);
    files = plan_megatron(w, g, megatron);
    for (const MegatronFile& f : files)
      for (const auto& t : f.tensors)
        row(f.path, megatron.virtual_stages > 1 ? fmt::format("model{}: {}", t.chunk, t.name) : t.name, *t.elements, dtype);
    if (Json theta = w.config.value("rope_theta", Json(10000.0));
        megatron.names == MegatronNames::legacy && theta.is_number() && theta.get<double>() != 10000.0)
      report.notes.push_back("Megatron of 2023 computes with a rope base of 10000 whatever args.rotary_base says");
  } else {
    if (o.to == "hf" && known) join_for_family(w, g);
    for (const auto& [n, e] : w.tensors)
      tensors.push_back({o.to == "mindformers" ? mindformers_name(n, g) : n, e, written(*e, o)});
    for (const NamedElements& t : tensors)
      row(o.to == "hf" ? "model*.safetensors" : "model-*.safetensors", t.name, *t.elements, t.dtype);
  }
  report.notes.insert(report.notes.begin(), w.notes.begin(), w.notes.end());
  if (w.config.is_null()) report.notes.push_back("no config.json was found: weights only (--model-config gives one)");
  if (!known && !hf_to_hf) report.notes.push_back("the family is not known: names and shapes are not checked");
  if (o.dry_run) return report;

  int64_t done = 0;
  const auto advance = [&](int64_t bytes) { progress(done += bytes, report.bytes); };
  fs::path target = fs::path(o.output).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();
  if (target.has_parent_path()) create_folders(target.parent_path().string());
  AtomicFolder folder(target.string());
  if (to_megatron) {
    write_megatron(folder.folder(), files, w, g, megatron, dtype, advance);
  } else if (o.to == "hf") {
    write_hf(folder.folder(), w, tensors, advance);
  } else {
    const auto places = write_shards(folder.folder(), tensors, "", "model", {{"format", "ms"}}, advance);
    Json map = Json::object();
    for (const auto& [n, file] : places) map.push_back({n, file});
    write_file_atomic(folder.folder() + "/param_name_map.json", map.dump(2) + "\n");
    write_config(folder.folder(), w, tensors);
  }
  folder.commit();
  return report;
}

}  // namespace ravine
