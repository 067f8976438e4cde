#include "io/convert/megatron_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>

#include "io/convert/dist_folder.h"
#include "io/convert/megatron.h"
#include "io/convert/megatron_place.h"

namespace fs = std::filesystem;

namespace ravine {

std::optional<int64_t> argument(const TorchFile& f, const char* key) {
  const Pickle& p = f.pickle();
  const auto args = p.find(p.root(), "args");
  const auto value = args ? p.find(*args, key) : std::nullopt;
  return value ? p.integer(*value) : std::nullopt;
}
std::optional<double> real_argument(const TorchFile& f, const char* key) {
  const Pickle& p = f.pickle();
  const auto args = p.find(p.root(), "args");
  const auto value = args ? p.find(*args, key) : std::nullopt;
  return value ? p.real(*value) : std::nullopt;
}
std::optional<std::string> text_argument(const TorchFile& f, const char* key) {
  const Pickle& p = f.pickle();
  const auto args = p.find(p.root(), "args");
  const auto value = args ? p.find(*args, key) : std::nullopt;
  const auto text = value ? p.text(*value) : std::nullopt;
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

namespace {

struct RankNumbers {
  int64_t tensor = 0, pipeline = 0, expert = 0;
  friend auto operator<=>(const RankNumbers&, const RankNumbers&) = default;
};
using RankFiles = std::map<RankNumbers, std::string>;

// True if the second number of mp_rank_TT_NNN is the expert rank: the arguments have several expert ranks and one
// stage.
bool numbers_experts(const std::string& file) {
  const TorchFile f(file);
  return argument(f, "expert_model_parallel_size").value_or(1) > 1 &&
         argument(f, "pipeline_model_parallel_size").value_or(1) == 1;
}

RankFiles rank_files(const std::string& folder) {
  static const std::regex megatron("mp_rank_(\\d{2,4})(?:_(\\d{3}))?(?:_(\\d{3}))?"),
      deepspeed("mp_rank_(\\d{2})_model_states\\.pt");
  RankFiles out;
  bool two = false, three = false;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::smatch m;
    if (std::regex_match(name, m, megatron) && entry.is_directory(error)) {
      const std::string file = entry.path().string() + "/model_optim_rng.pt", older = entry.path().string() + "/model_rng.pt";
      if (!fs::exists(file) && !fs::exists(older))
        throw UserError("missing file", file, "each rank's folder holds it", kComplete);
      auto number = [&](size_t i) { return m[i].matched ? std::stoll(m[i]) : 0; };
      three = three || m[3].matched, two = two || (m[2].matched && !m[3].matched);
      out[{number(1), number(2), number(3)}] = fs::exists(file) ? file : older;
    } else if (std::regex_match(name, m, deepspeed)) {
      out[{std::stoll(m[1]), 0, 0}] = entry.path().string();
    }
  }
  if (!two || three || !numbers_experts(out.begin()->second)) return out;
  RankFiles experts;
  for (const auto& [rank, file] : out) experts[{rank.tensor, 0, rank.pipeline}] = file;
  return experts;
}

std::vector<MegatronRank::Tensor> tensors_of(const std::shared_ptr<const TorchFile>& file, Pickle::Ref model) {
  const auto state = std::make_shared<TorchStateFile>(file, model, "");
  std::vector<MegatronRank::Tensor> out;
  for (const TensorInfo& info : state->tensors()) out.push_back({info.name, stored(state, info)});
  return out;
}

// Throws for other forms of megatron-core's dist_checkpointing, which metadata.json names: torch_dist is read, zarr is
// not.
void refuse_other_form(const std::string& path) {
  std::error_code error;
  const std::string file = path + "/metadata.json";
  if (!fs::is_regular_file(file, error)) return;
  const Json j = read_json(file);
  const auto form = j.find("sharded_backend");
  if (!j.is_object() || form == j.end() || !form->is_string()) return;
  if (*form == "torch_dist")
    throw UserError("a torch_dist folder without .metadata", path, "it has the position of each tensor", kComplete);
  throw UserError(fmt::format("a Megatron checkpoint in the form {}", printable(form->get<std::string>())), path,
                  "folders of ranks and torch_dist are read", kDistFix);
}

// Checks that ranks belong together: one step, one layout, a known order of q, k, v. With `dist` tensors are whole, for
// any number of ranks that wrote them.
void check_ranks(const MegatronFolder& f, bool dist) {
  const MegatronRank& first = f.ranks[0];
  auto field = [](const MegatronRank& r, const char* key) { return r.file->pickle().find(r.file->pickle().root(), key); };
  for (const MegatronRank& r : f.ranks) {
    auto whole = [&](const MegatronRank& x, const char* key) {
      auto v = field(x, key);
      return v ? x.file->pickle().integer(*v) : std::nullopt;
    };
    if (whole(r, "iteration") != whole(first, "iteration"))
      throw UserError("ranks of different steps", r.file->path(),
                      fmt::format("its iteration is {}, that of {} is {}", whole(r, "iteration").value_or(-1),
                                  first.file->path(), whole(first, "iteration").value_or(-1)),
                      "use files of one checkpoint");
    if (r.chunks.size() != first.chunks.size())
      throw UserError(
          "ranks of different layouts", r.file->path(),
          fmt::format("it has {} virtual stages, {} has {}", r.chunks.size(), first.file->path(), first.chunks.size()),
          "use files of one checkpoint");
    const auto version = field(r, "checkpoint_version");
    const auto number = version ? r.file->pickle().real(*version) : std::nullopt;
    if (number != 3.0)
      throw UserError("old checkpoint", r.file->path() + ": checkpoint_version",
                      fmt::format("version 3.0 is read, since older ones order the rows of q, k and v otherwise; it is {}",
                                  number ? fmt::format("{}", *number) : "missing"),
                      "load and save it once with a Megatron of 2021 or later");
    if (dist) continue;
    for (const auto& [key, want] :
         {std::pair{"tensor_model_parallel_size", f.tensor},
          {"pipeline_model_parallel_size", f.pipeline},
          {"expert_model_parallel_size", f.expert},
          {"expert_tensor_parallel_size", argument(*r.file, "num_experts").value_or(0) > 0 ? f.tensor : 0}})
      if (const auto is = argument(*r.file, key); want > 0 && is && *is != want)
        throw UserError("missing rank", r.file->path(),
                        fmt::format("its arguments say {} = {}, the folder holds {}{}", key, *is, want,
                                    *is <= want || key[0] == 'e'       ? ""
                                    : key[0] == 't' && f.pipeline == 1 ? fmt::format(": mp_rank_{:02} is not there", want)
                                    : key[0] == 'p'                    ? fmt::format(": mp_rank_00_{:03} is not there", want)
                                                                       : fmt::format(": mp_rank_{:02}_000 is not there", want)),
                        kComplete);
  }
}

}  // namespace

MegatronFolder open_megatron(const std::string& path, StateKind kind) {
  MegatronFolder f;
  f.path = megatron_ranks(path);
  if (is_dist_folder(f.path)) {
    f.tensor = f.pipeline = 1;
    f.ranks.push_back(read_dist_rank(f.path, kind));
    check_ranks(f, true);
    return f;
  }
  const auto files = rank_files(f.path);
  if (files.empty()) refuse_other_form(f.path);
  if (files.empty()) throw UserError("no ranks", f.path, "it must hold folders mp_rank_TT or mp_rank_TT_PPP", "check the path");
  for (const auto& [rank, file] : files) {
    f.tensor = std::max(f.tensor, rank.tensor + 1);
    f.pipeline = std::max(f.pipeline, rank.pipeline + 1);
    f.expert = std::max(f.expert, rank.expert + 1);
  }
  for (int64_t i = 0; i < f.expert * f.pipeline * f.tensor; ++i) {
    const int64_t t = i % f.tensor, p = i / f.tensor % f.pipeline, e = i / (f.tensor * f.pipeline);
    auto it = files.find({t, p, e});
    if (it == files.end())
      throw UserError("missing rank", f.path,
                      fmt::format("{} tensor x {} pipeline{} ranks need mp_rank_{:02}{}{}", f.tensor, f.pipeline,
                                  f.expert > 1 ? fmt::format(" x {} expert", f.expert) : "", t,
                                  f.pipeline > 1 ? fmt::format("_{:03}", p) : "", f.expert > 1 ? fmt::format("_{:03}", e) : ""),
                      kComplete);
    MegatronRank r{std::make_shared<TorchFile>(it->second), {}};
    const Pickle& pickle = r.file->pickle();
    for (const char* key : {"model", "module"})
      if (auto model = pickle.find(pickle.root(), key)) {
        r.chunks.push_back(tensors_of(r.file, *model));
        break;
      }
    for (int64_t c = 0; r.chunks.size() == static_cast<size_t>(c); ++c)
      if (auto model = pickle.find(pickle.root(), fmt::format("model{}", c))) r.chunks.push_back(tensors_of(r.file, *model));
    if (r.chunks.empty()) throw UserError("no weights", it->second, "it must hold 'model', or 'model0' and so on", kComplete);
    f.ranks.push_back(std::move(r));
  }
  check_ranks(f, false);
  if (kind != StateKind::weights && f.expert > 1)
    throw UserError("optimizer state of several expert ranks", f.path,
                    "such states are not read: experts and other parameters are stored separately", "leave out --optimizer");
  if (kind != StateKind::weights)
    for (MegatronRank& r : f.ranks) take_from_optimizer(r, kind);
  return f;
}

std::vector<std::string> megatron_files(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(megatron_ranks(path)))
    if (entry.is_regular_file() && (entry.path().extension() == ".pt" || entry.path().extension() == ".distcp"))
      out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace ravine
