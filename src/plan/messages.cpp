#include "plan/messages.h"

#include <algorithm>
#include <cstddef>

#include "base/clock.h"
#include "base/error.h"

namespace ravine {
namespace {

constexpr int64_t kSizes[] = {1 << 10, 1 << 14, 1 << 17, 1 << 19, 1 << 21, 1 << 23};

Json points_json(const std::vector<MessageRates::Point>& points) {
  Json list = Json::array();
  for (const auto& p : points) list.push_back({p.bytes, p.seconds});
  return list;
}

}  // namespace

double MessageRates::line(const std::vector<Point>& p, double bytes) {
  if (p.empty() || bytes <= 0) return 0;
  if (bytes <= p.front().bytes) return p.front().seconds;
  for (size_t i = 1; i < p.size(); ++i)
    if (bytes <= p[i].bytes)
      return p[i - 1].seconds + (p[i].seconds - p[i - 1].seconds) * (bytes - p[i - 1].bytes) / (p[i].bytes - p[i - 1].bytes);
  return p.back().seconds * bytes / p.back().bytes;
}

double MessageRates::of(const std::vector<Point>& points, double bytes, int n) const {
  return n < 2 ? 0 : line(points, bytes * static_cast<double>(n - 1) / static_cast<double>(std::max(1, ranks - 1)));
}

Json MessageRates::json() const {
  return {{"ranks", ranks},
          {"all_to_all", points_json(all_to_all)},
          {"all_gather", points_json(all_gather)},
          {"send", points_json(send)}};
}

std::optional<MessageRates> MessageRates::from_json(const Json& j) {
  try {
    MessageRates out;
    out.ranks = j.at("ranks").get<int>();
    out.measured = true;
    for (auto [key, points] : {std::pair{"all_to_all", &out.all_to_all}, {"all_gather", &out.all_gather}, {"send", &out.send}})
      for (const Json& p : j.at(key)) points->push_back({p.at(0).get<double>(), p.at(1).get<double>()});
    for (const auto* points : {&out.all_to_all, &out.all_gather, &out.send})
      for (const Point& p : *points)
        if (!(p.bytes > 0 && p.bytes < 1e15 && p.seconds > 0 && p.seconds < 1e6)) return std::nullopt;
    bool good = out.ranks > 1 && !out.all_to_all.empty() && !out.all_gather.empty() && !out.send.empty();
    return good ? std::optional(out) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

MessageRates measure_messages(const Group& group) {
  int n = group.size(), me = group.rank();
  require(n > 1, "messages: between two ranks at least");
  int64_t most = *std::max_element(std::begin(kSizes), std::end(kSizes));
  std::vector<std::byte> from(static_cast<size_t>(most * n)), to(from.size());
  MessageRates out;
  out.ranks = n;
  out.measured = true;
  auto measure = [&](std::vector<MessageRates::Point>& points, auto call) {
    for (int64_t bytes : kSizes) {
      int repeats = static_cast<int>(std::clamp<int64_t>((int64_t{32} << 20) / bytes, 5, 60));
      std::vector<int64_t> times;
      for (int i = -2; i < repeats; ++i) {
        group.barrier();
        double began = seconds_now();
        call(bytes);
        int64_t slowest = largest(group, static_cast<int64_t>(1e9 * (seconds_now() - began)));
        if (i >= 0) times.push_back(slowest);
      }
      std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
      points.push_back({static_cast<double>(bytes), 1e-9 * static_cast<double>(times[static_cast<size_t>(repeats / 2)])});
    }
  };
  measure(out.all_to_all, [&](int64_t bytes) { group.all_to_all(from.data(), to.data(), bytes).wait(); });
  measure(out.all_gather, [&](int64_t bytes) { group.all_gather(from.data(), to.data(), bytes).wait(); });
  // Pairs of neighbours, one way, as in a pipeline.
  measure(out.send, [&](int64_t bytes) {
    if (me % 2 == 0 && me + 1 < n) group.send(from.data(), bytes, me + 1).wait();
    if (me % 2 == 1) group.receive(to.data(), bytes, me - 1).wait();
  });
  return out;
}

MessageRates guessed_messages(double copy_bytes, int ranks) {
  MessageRates out;
  out.ranks = std::max(2, ranks);
  double rate = copy_bytes / (4.0 * out.ranks), pieces = out.ranks - 1;  // each byte is read and written twice
  for (int64_t bytes : kSizes) {
    double b = static_cast<double>(bytes);
    out.all_to_all.push_back({b, 2e-5 + pieces * b / rate});
    out.all_gather.push_back({b, 2e-5 + pieces * b / rate});
    out.send.push_back({b, 2e-5 + b / rate});
  }
  return out;
}

}  // namespace ravine
