#include "parallel/schedule_picture.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ravine {
namespace {

constexpr double kStageRow = 26;

std::string label(const PipelineTask& t, bool chunks) {
  return fmt::format("{}{}{}", t.backward ? "B" : "F", t.micro,
                     chunks ? std::string(1, static_cast<char>('a' + t.chunk % 26)) : "");
}

bool has_chunks(const PipelineTimes& t) {
  for (const auto& stage : t.stages)
    for (const auto& span : stage)
      if (span.task.chunk > 0) return true;
  return false;
}

}  // namespace

std::string pipeline_chart(const PipelineTimes& times) {
  bool chunks = has_chunks(times);
  double shortest = times.length;
  size_t widest = 1;
  for (const auto& stage : times.stages)
    for (const auto& span : stage)
      shortest = std::min(shortest, span.end - span.begin), widest = std::max(widest, label(span.task, chunks).size());
  double columns = static_cast<double>(widest + 1) / shortest;  // per unit of time
  std::string out;
  for (size_t s = 0; s < times.stages.size(); ++s) {
    std::string line = fmt::format("stage {:<3}|", s);
    size_t edge = line.size();
    for (const auto& span : times.stages[s]) {
      size_t begin = edge + static_cast<size_t>(std::lround(span.begin * columns)),
             end = edge + static_cast<size_t>(std::lround(span.end * columns));
      line.resize(std::max(line.size(), begin), '.');
      std::string text = label(span.task, chunks);
      text.resize(std::max<size_t>(end - begin, text.size() + 1), span.task.backward ? '=' : '-');
      text.back() = ' ';
      line += text;
    }
    line.resize(std::max(line.size(), edge + static_cast<size_t>(std::lround(times.length * columns))), '.');
    out += line + "|\n";
  }
  return out + fmt::format("bubble {:.1f} %\n", 100 * times.bubble);
}

double pipeline_svg_height(const PipelineTimes& times) { return kStageRow * static_cast<double>(times.stages.size()) + 40; }

std::string pipeline_svg(const PipelineTimes& times) {
  constexpr double kRow = kStageRow, kLeft = 70, kWidth = 1200;
  bool chunks = has_chunks(times);
  double scale = kWidth / times.length, height = pipeline_svg_height(times);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kLeft + kWidth + 10, height);
  for (size_t s = 0; s < times.stages.size(); ++s) {
    double y = 8 + kRow * static_cast<double>(s);
    out += fmt::format("<text x=\"8\" y=\"{:.1f}\">stage {}</text>\n", y + 16, s);
    for (const auto& span : times.stages[s]) {
      int shade = 40 + 12 * (span.task.chunk % 4);
      double x = kLeft + span.begin * scale, width = (span.end - span.begin) * scale;
      out += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"hsl({},60%,{}%)\" stroke=\"white\"/>", x,
          y, width, kRow - 4, span.task.backward ? 140 : 215, shade);
      out += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"white\">{}</text>\n", x + width / 2,
                         y + 15, label(span.task, chunks));
    }
  }
  return out +
         fmt::format("<text x=\"{}\" y=\"{:.1f}\">bubble {:.1f} %</text>\n</svg>\n", kLeft, height - 10, 100 * times.bubble);
}

}  // namespace ravine
