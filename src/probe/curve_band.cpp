#include "probe/curve_band.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace ravine {
namespace {

constexpr int64_t kMostBand = int64_t{256} << 20;

Json points_of(const std::map<int64_t, double>& values) {
  Json out = Json::array();
  for (const auto& [step, x] : values) out.push_back({step, std::isfinite(x) ? Json(x) : Json()});
  return out;
}

void read_points(const Json& run, const char* key, const std::string& path, std::map<int64_t, double>& to) {
  for (const Json& point : array_field(run, key, path)) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number_integer())
      throw UserError(fmt::format("a point of '{}' that is no [step, value]", key), path, "ravine check baseline writes it",
                      "write it again");
    to[point[0].get<int64_t>()] = point[1].is_number() ? point[1].get<double>() : std::nan("");
  }
}

}  // namespace

void write_curve_band(const std::string& path, const std::string& kind, const std::vector<TrainingCurve>& runs,
                      const MayReplace& check) {
  Json all = Json::array();
  for (const TrainingCurve& c : runs)
    all.push_back({{"name", c.name}, {"loss", points_of(c.loss)}, {"norm", points_of(c.norm)}, {"rate", points_of(c.rate)}});
  const Json file{{"ravine", "band"}, {"version", 1}, {"kind", kind}, {"runs", all}};
  write_file_atomic(path, file.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n", check);
}

std::vector<TrainingCurve> read_curve_band(const std::string& path) {
  const Json file = read_json(path, kMostBand);
  if (!file.is_object() || file.value("ravine", "") != "band")
    throw UserError("no band", path, "ravine check baseline and ravine check lr0 write it", "name such a file");
  std::vector<TrainingCurve> out;
  for (const Json& run : array_field(file, "runs", path)) {
    TrainingCurve c;
    c.name = field_or<std::string>(run, "name", path, "run"), c.kind = "band";
    read_points(run, "loss", path, c.loss), read_points(run, "norm", path, c.norm), read_points(run, "rate", path, c.rate);
    out.push_back(std::move(c));
  }
  if (out.size() < 2)
    throw UserError(fmt::format("{} curve in the band", out.size()), path, "a scatter needs two or more",
                    "make it by check baseline --perturb, or by check lr0 --against LOG");
  return out;
}

}  // namespace ravine
