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
    return path.is_absolute() ? path : fs::path();  // a relative one is none, says the XDG base directory specification
  };
  if (const fs::path cache = folder("XDG_CACHE_HOME"); !cache.empty()) return cache / "ravine" / "machine.json";
  if (const fs::path home = folder("HOME"); !home.empty()) return home / ".cache" / "ravine" / "machine.json";
  return "";
}

std::string cache_key() {
  return fmt::format("{}, {}, {}, {} threads", program_version(), cpu_name(), cpu_instruction_set(), thread_count());
}

// A damaged cache is as good as none.
Json read_cache(const std::string& path) {
  try {
    if (Json all = path.empty() || !std::filesystem::exists(path) ? Json::object() : read_json(path, 1 << 20); all.is_object())
      return all;
  } catch (const std::exception&) {
  }
  return Json::object();
}
}  // namespace

std::optional<MachinePeaks> known_machine_peaks(Peaks what) {
  Json all = read_cache(cache_file());
  try {
    auto it = all.find(cache_key());
    if (it == all.end() || (what == Peaks::all && !it->contains("read_bytes"))) return std::nullopt;
    return MachinePeaks{.f32_flops = it->at("f32_flops"),
                        .bf16_flops = it->at("bf16_flops"),
                        .f32_product = it->at("f32_product"),
                        .bf16_product = it->at("bf16_product"),
                        .bf16_dot = it->at("bf16_dot"),
                        .read_bytes = it->value("read_bytes", 0.0),
                        .copy_bytes = it->value("copy_bytes", 0.0)};
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

double peak_of_ranks(const Ranks& ranks, int local, DType compute) {
  double peak = 0;
  if (ranks.first()) {
    MachinePeaks peaks = machine_peaks(Peaks::arithmetic);
    peak = compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  }
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  double share = std::min(1.0, static_cast<double>(cores) / (local * thread_count()));
  return static_cast<double>(largest(ranks.all(), std::llround(peak * ranks.size() * (ranks.size() > 1 ? share : 1.0))));
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

// Without a writable cache folder the next run measures again. "", or why nothing is kept.
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
    if (it != all.end() && it->is_number() && it->get<double>() > 0) return it->get<double>();
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

MachinePeaks machine_peaks(Peaks what, bool measure_again) {
  if (!measure_again)
    if (auto known = known_machine_peaks(what)) return *known;
  std::string path = cache_file(), key = cache_key();
  Json all = read_cache(path);
  MachinePeaks p = measure_peaks(what == Peaks::all);
  ::malloc_trim(0);  // glibc would keep the matrices of the measurement, which no plan counts
  all[key] = {{"f32_flops", p.f32_flops},
              {"bf16_flops", p.bf16_flops},
              {"f32_product", p.f32_product},
              {"bf16_product", p.bf16_product},
              {"bf16_dot", p.bf16_dot}};
  if (what == Peaks::all) all[key].update({{"read_bytes", p.read_bytes}, {"copy_bytes", p.copy_bytes}});
  write_cache(path, all);
  return p;
}

}  // namespace ravine
