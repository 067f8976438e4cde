#include "plan/machine.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "base/parallel.h"
#include "base/version.h"
#include "files/atomic.h"
#include "kernels/kernels.h"

namespace ravine {

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string model = "?", name = "cpu";
  for (std::string line; std::getline(in, line) && !line.empty();) {
    auto value = [&] { return line.substr(std::min(line.size(), line.find(':') + 2)); };
    if (line.rfind("model name", 0) == 0) name = value();
    if (line.rfind("model\t", 0) == 0) model = value();
  }
  return name + " (model " + model + ")";
}

namespace {
std::string cache_file() {
  namespace fs = std::filesystem;
  auto folder = [](const char* variable) {
    const char* text = std::getenv(variable);
    const fs::path path = text ? text : "";
    return path.is_absolute() ? path : fs::path();  // the XDG base directory specification ignores relative paths
  };
  if (const fs::path cache = folder("XDG_CACHE_HOME"); !cache.empty()) return cache / "ravine" / "machine.json";
  if (const fs::path home = folder("HOME"); !home.empty()) return home / ".cache" / "ravine" / "machine.json";
  return "";
}

std::string cache_key() {
  return fmt::format("{}, {}, {}, {} threads", program_version(), cpu_name(), cpu_instruction_set(), thread_count());
}

// Returns the cache; empty if it is damaged or no plain file (a pipe would block the reader).
Json read_cache(const std::string& path) {
  try {
    if (Json all = std::filesystem::is_regular_file(path) ? read_json(path, 1 << 20) : Json::object(); all.is_object())
      return all;
  } catch (const std::exception&) {
  }
  return Json::object();
}
}  // namespace

namespace {
// Figures that some machine may have: not those of a file that was damaged or changed.
bool possible(const MachinePeaks& p) {
  constexpr double kLeast = 1e3, kMost = 1e16;  // per second, of one process
  const auto rate = [](double x) { return x >= kLeast && x <= kMost; };
  const auto rate_or_none = [&](double x) { return x == 0 || rate(x); };
  const auto share = [](double x) { return x >= 0 && x <= 2; };
  return rate(p.f32_flops) && rate(p.bf16_flops) && rate(p.f32_product) && rate(p.bf16_product) && rate_or_none(p.bf16_dot) &&
         rate_or_none(p.read_bytes) && rate_or_none(p.copy_bytes) && share(p.spread) && share(p.ran);
}
}  // namespace

std::optional<MachinePeaks> known_machine_peaks(Peaks what) {
  Json all = read_cache(cache_file());
  try {
    auto it = all.find(cache_key());
    if (it == all.end() || (what == Peaks::all && !it->contains("read_bytes"))) return std::nullopt;
    const MachinePeaks p{.f32_flops = it->at("f32_flops"),
                         .bf16_flops = it->at("bf16_flops"),
                         .f32_product = it->at("f32_product"),
                         .bf16_product = it->at("bf16_product"),
                         .bf16_dot = it->at("bf16_dot"),
                         .read_bytes = it->value("read_bytes", 0.0),
                         .copy_bytes = it->value("copy_bytes", 0.0),
                         .spread = it->value("spread", 0.0),
                         .ran = it->value("ran", 0.0),
                         .sure = it->value("sure", false)};
    if (possible(p)) return p;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

namespace {
// Returns the peak of all ranks / the peak of one process.
double times_of_one(const Ranks& ranks, int local) {
  const auto cores = static_cast<double>(std::thread::hardware_concurrency());
  return ranks.size() > 1 ? ranks.size() * std::min(1.0, cores / (local * thread_count())) : 1.0;
}
}  // namespace

double peak_of_ranks(const Ranks& ranks, int local, DType compute) {
  double peak = 0;
  if (ranks.first()) {
    MachinePeaks peaks = machine_peaks(Peaks::arithmetic);
    peak = compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  }
  return static_cast<double>(largest(ranks.all(), std::llround(peak * times_of_one(ranks, local))));
}

void raise_peak_of_ranks(const Ranks& ranks, int local, DType compute, double reached) {
  raise_peak(compute, reached / times_of_one(ranks, local));
}

bool counts_every_flop(const Model& model) {
  const auto& all = model.params().params();
  return std::all_of(all.begin(), all.end(), [](const Param& p) { return p.policy.trainable; });
}

MachinePeaks usual_machine() {
  return {.f32_flops = 2e11,
          .bf16_flops = 2e11,
          .f32_product = 1.8e11,
          .bf16_product = 1.8e11,
          .bf16_dot = 0,
          .read_bytes = 3e10,
          .copy_bytes = 4e10};
}

namespace {
std::string messages_key(int ranks) {
  return fmt::format("{}, {}, messages between {} ranks", program_version(), cpu_name(), ranks);
}

// Writes the cache. Returns "", or the reason why nothing is kept: the next run then measures again.
std::string write_cache(const std::string& path, const Json& all) {
  if (path.empty()) return "neither XDG_CACHE_HOME nor HOME names a folder";
  try {
    create_folders(std::filesystem::path(path).parent_path().string());
    write_file_atomic(path, all.dump(2) + "\n");
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}
}  // namespace

std::optional<MessageRates> known_message_rates(int ranks) {
  Json all = read_cache(cache_file());
  auto it = all.find(messages_key(ranks));
  return it == all.end() ? std::nullopt : MessageRates::from_json(*it);
}

namespace {
std::string share_key(int threads) {
  return fmt::format("{}, {}, {}, {} threads, share that a step reaches", program_version(), cpu_name(), cpu_instruction_set(),
                     threads);
}
}  // namespace

std::optional<double> known_step_share() {
  const Json all = read_cache(cache_file());
  for (int threads = thread_count(), tried = 0; tried < 2 * thread_count() + 64; ++tried, threads = tried) {
    const auto it = all.find(share_key(threads));
    if (it != all.end() && it->is_number() && it->get<double>() > 1e-6 && it->get<double>() <= 10) return it->get<double>();
  }
  return std::nullopt;
}

std::string keep_step_share(double share) {
  Json all = read_cache(cache_file());
  all[share_key(thread_count())] = share;
  return write_cache(cache_file(), all);
}

std::string keep_message_rates(const MessageRates& rates) {
  Json all = read_cache(cache_file());
  all[messages_key(rates.ranks)] = rates.json();
  return write_cache(cache_file(), all);
}

namespace {
// Returns the larger value of each figure. The result is sure if both agree, and nothing else ran during the second
// measurement.
MachinePeaks larger(const MachinePeaks& known, MachinePeaks p) {
  bool agree = p.ran >= kQuietShare;
  for (double MachinePeaks::*figure :
       {&MachinePeaks::f32_flops, &MachinePeaks::bf16_flops, &MachinePeaks::f32_product, &MachinePeaks::bf16_product,
        &MachinePeaks::bf16_dot, &MachinePeaks::read_bytes, &MachinePeaks::copy_bytes}) {
    const double most = std::max(known.*figure, p.*figure);
    agree = agree && std::min(known.*figure, p.*figure) >= (1 - kPeaksAgree) * most;
    p.*figure = most;
  }
  p.sure = agree;
  return p;
}

void keep_peaks(const MachinePeaks& p) {
  const std::string path = cache_file();
  Json all = read_cache(path);
  Json& kept = all[cache_key()] = {{"f32_flops", p.f32_flops},
                                   {"bf16_flops", p.bf16_flops},
                                   {"f32_product", p.f32_product},
                                   {"bf16_product", p.bf16_product},
                                   {"bf16_dot", p.bf16_dot},
                                   {"spread", p.spread},
                                   {"ran", p.ran},
                                   {"sure", p.sure}};
  if (p.read_bytes > 0) kept.update({{"read_bytes", p.read_bytes}, {"copy_bytes", p.copy_bytes}});
  write_cache(path, all);
}
}  // namespace

MachinePeaks machine_peaks(Peaks what, bool measure_again) {
  const auto known = known_machine_peaks(what), before = known_machine_peaks(Peaks::arithmetic);
  if (!measure_again && known && (known->sure || core_share() < kQuietShare)) return *known;
  MachinePeaks p = measure_peaks(what == Peaks::all);
  ::malloc_trim(0);  // else glibc would keep the memory of the measurement, which no plan counts
  if (what == Peaks::arithmetic && before) p.read_bytes = before->read_bytes, p.copy_bytes = before->copy_bytes;
  if (!measure_again && before && !p.sure) p = larger(*before, p);
  keep_peaks(p);
  return p;
}

void raise_peak(DType compute, double reached) {
  std::optional<MachinePeaks> p = known_machine_peaks(Peaks::arithmetic);
  if (!p) return;
  double& peak = compute == DType::bf16 ? p->bf16_flops : p->f32_flops;
  if (reached <= peak) return;
  peak = reached, p->sure = false;
  p->bf16_flops = std::max(p->bf16_flops, p->f32_flops);  // bf16 operands may also be widened to f32
  keep_peaks(*p);
}

}  // namespace ravine
