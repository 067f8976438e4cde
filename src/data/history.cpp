#include "data/history.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"
#include "config/bounds.h"

namespace ravine {

std::vector<int64_t> DataHistory::numbers(const std::vector<std::string>& sources) const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < sources.size(); ++i) {
    auto before = std::count(sources.begin(), sources.begin() + static_cast<ptrdiff_t>(i), sources[i]);
    int64_t number = -1;
    for (size_t k = 0; k < sources_.size() && number < 0; ++k)
      if (sources_[k] == sources[i] && before-- == 0) number = static_cast<int64_t>(k);
    out.push_back(number);
  }
  return out;
}

void DataHistory::change(int64_t step, int64_t global_batch, const std::vector<std::string>& sources,
                         const std::vector<double>& weights) {
  require(step >= 0 && global_batch >= 1, "data history: step {} of {} sequences", step, global_batch);
  require(weights.empty() || weights.size() == sources.size(), "data history: {} weights of {} sources", weights.size(),
          sources.size());
  std::vector<int64_t> at = numbers(sources);
  for (size_t i = 0; i < sources.size(); ++i)
    if (at[i] < 0) {
      at[i] = static_cast<int64_t>(sources_.size());
      sources_.push_back(sources[i]);
    }
  DataSegment next{step, segments_.empty() ? step * global_batch : first_sample(step), global_batch, {}};
  if (!weights.empty()) next.weights.resize(sources_.size());
  for (size_t i = 0; i < weights.size(); ++i) next.weights[static_cast<size_t>(at[i])] = weights[i];
  while (!segments_.empty() && segments_.back().step >= step) segments_.pop_back();
  if (!segments_.empty()) {
    std::vector<double> was = segments_.back().weights;
    if (!was.empty()) was.resize(std::max(was.size(), next.weights.size()));
    if (segments_.back().global_batch == global_batch && was == next.weights) return;
  }
  segments_.push_back(std::move(next));
}

const DataSegment& DataHistory::segment(int64_t step) const {
  require(!segments_.empty() && step >= segments_[0].step, "data history: no step {}", step);
  auto after =
      std::upper_bound(segments_.begin(), segments_.end(), step, [](int64_t s, const DataSegment& d) { return s < d.step; });
  return *(after - 1);
}

int64_t DataHistory::first_sample(int64_t step) const {
  const DataSegment& s = segment(step);
  return add_checked(s.sample, mul_checked(step - s.step, s.global_batch));
}

int64_t DataHistory::global_batch(int64_t step) const { return segment(step).global_batch; }

Json DataHistory::json() const {
  Json list = Json::array();
  for (const DataSegment& s : segments_) {
    list.push_back({{"step", s.step}, {"sample", s.sample}, {"global_batch", s.global_batch}});
    if (!s.weights.empty()) list.back()["weights"] = s.weights;
  }
  return {{"sources", sources_}, {"segments", list}};
}

DataHistory DataHistory::from_json(const Json& json, const std::string& where) {
  DataHistory h;
  for (const Json& source : array_field(json, "sources", where)) {
    if (!source.is_string())
      throw UserError("field 'sources' of the wrong kind", where, "it must be a list of texts", "choose another checkpoint");
    h.sources_.push_back(source.get<std::string>());
  }
  for (const Json& s : array_field(json, "segments", where)) {
    const std::string here = where + ": segments";
    DataSegment d{
        field<int64_t>(s, "step", here), field<int64_t>(s, "sample", here), field<int64_t>(s, "global_batch", here), {}};
    if (s.contains("weights"))
      for (const Json& w : array_field(s, "weights", here)) {
        if (!w.is_number())
          throw UserError("field 'weights' of the wrong kind", here, "it must be a list of numbers",
                          "choose another checkpoint");
        d.weights.push_back(w.get<double>());
      }
    // The limits of the options; they keep products of these numbers from overflowing.
    bool good = d.step >= 0 && static_cast<double>(d.step) <= kMostSteps && d.sample >= 0 &&
                static_cast<double>(d.sample) <= kMostSteps * kMostSequences && d.global_batch >= 1 &&
                static_cast<double>(d.global_batch) <= kMostSequences && d.weights.size() <= h.sources_.size();
    if (!h.segments_.empty()) good = good && d.step > h.segments_.back().step && d.sample >= h.segments_.back().sample;
    for (double w : d.weights) good = good && std::isfinite(w) && w >= 0;
    if (!d.weights.empty()) good = good && std::any_of(d.weights.begin(), d.weights.end(), [](double w) { return w > 0; });
    if (!good)
      throw UserError("wrong data position", where, "its segments do not follow each other", "choose another checkpoint");
    h.segments_.push_back(std::move(d));
  }
  return h;
}

}  // namespace ravine
