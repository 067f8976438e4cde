#include "apps/plan_picture.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "parallel/schedule_picture.h"
#include "probe/chart.h"

namespace ravine {
namespace {

constexpr double kPictureWidth = 1280, kPlotLeft = 70, kPlotRight = 1270, kPanelHeight = 210, kBarsHeight = 130;

struct PictureKind {
  const char *name, *colour;  // colour of Okabe and Ito, 2008
};
constexpr PictureKind kPictureKinds[] = {{"program and batches", "#999999"}, {"weights", "#0072b2"},
                                         {"optimizer", "#56b4e9"},           {"gradients", "#d55e00"},
                                         {"activations", "#009e73"},         {"workspace", "#e69f00"}};

// Returns the bytes of each kind in kPictureKinds.
std::vector<int64_t> kinds_in(const RunMemory& m, const MemoryPhase& phase) {
  auto at = [&](MemoryKind k) { return phase.at_peak[static_cast<size_t>(k)]; };
  return {m.base + m.batches,       m.weights, m.optimizer, at(MemoryKind::gradients), at(MemoryKind::activations),
          at(MemoryKind::workspace)};
}

// Returns "F0", "B0" as in the pipeline chart.
std::string phase_label(const std::string& name) {
  if (name.starts_with("forward ")) return "F" + name.substr(8);
  if (name.starts_with("backward ")) return "B" + name.substr(9);
  return name;
}

std::string memory_panel(const RunMemory& m, size_t stage, bool named, int64_t most, double top) {
  const double floor = top + 40 + kBarsHeight, scale = kBarsHeight / static_cast<double>(most);
  std::string out = fmt::format("<text x=\"{}\" y=\"{:.1f}\" font-weight=\"bold\">memory over the step{}</text>\n", kPlotLeft,
                                top + 14, named ? fmt::format(", each rank of stage {}", stage) : "");
  // Ticks in the unit of human_bytes for the largest value.
  double unit = 1;
  while (static_cast<double>(most) / unit >= 1024) unit *= 1024;
  for (double t : round_ticks(0, static_cast<double>(most) / unit, 6)) {
    const double y = floor - t * unit * scale;
    out += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"#dddddd\"/><text x=\"{}\" y=\"{:.2f}\" text-anchor=\"end\">{}</text>\n",
        kPlotLeft, kPlotRight, y, y, kPlotLeft - 6, y + 4, t == 0 ? "0" : human_bytes(t * unit));
  }
  const double slot = (kPlotRight - kPlotLeft) / static_cast<double>(std::max<size_t>(1, m.phases.size())),
               gap = slot > 8 ? 2 : 0;
  for (size_t i = 0; i < m.phases.size(); ++i) {
    const std::vector<int64_t> bytes = kinds_in(m, m.phases[i]);
    const double x = kPlotLeft + slot * static_cast<double>(i);
    double y = floor;
    for (size_t k = 0; k < bytes.size(); ++k) {
      const double height = static_cast<double>(bytes[k]) * scale;
      y -= height;
      out += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" data-stage=\"{}\" data-phase=\"{}\" data-kind=\"{}\" data-bytes=\"{}\"><title>{}: {} {}</title></rect>\n",
          x + gap / 2, y, slot - gap, height, kPictureKinds[k].colour, stage, m.phases[i].name, kPictureKinds[k].name, bytes[k],
          m.phases[i].name, kPictureKinds[k].name, human_bytes(static_cast<double>(bytes[k])));
    }
    const std::string label = phase_label(m.phases[i].name);
    if (slot >= 8 * static_cast<double>(label.size()))
      out += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x + slot / 2, floor + 15, label);
  }
  const double y = floor - static_cast<double>(m.total()) * scale;
  return out +
         fmt::format(
             "<line x1=\"{}\" x2=\"{}\" y1=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"black\" stroke-dasharray=\"6 3\" data-stage=\"{}\" data-total=\"{}\"/>"
             "<text x=\"{}\" y=\"{:.2f}\" text-anchor=\"end\">{} in all</text>\n",
             kPlotLeft, kPlotRight, y, y, stage, m.total(), kPlotRight, y - 4, human_bytes(static_cast<double>(m.total())));
}

std::string picture_legend(double y) {
  std::string out;
  double x = kPlotLeft;
  for (const PictureKind& k : kPictureKinds) {
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"11\" height=\"11\" fill=\"{}\"/><text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        x, y, k.colour, x + 16, y + 10, k.name);
    x += 40 + 7.0 * static_cast<double>(std::string_view(k.name).size());
  }
  return out + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">- - with gaps between blocks</text>\n", x, y + 10);
}

}  // namespace

std::string plan_picture(const StepEstimate& estimate, const std::vector<RunMemory>& stages) {
  const double chart = 24, chart_height = pipeline_svg_height(estimate.times), legend = chart + chart_height + 4,
               panels = legend + 26;
  const double height = panels + kPanelHeight * static_cast<double>(stages.size()) + 26;
  int64_t most = 1;
  for (const RunMemory& m : stages) most = std::max(most, m.total());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{2}\" y=\"17\" font-weight=\"bold\">what each stage does over a step: forward (F) and backward (B) of its micro batches</text>\n"
      "<g transform=\"translate(0 {3})\">\n{4}</g>\n",
      kPictureWidth, height, kPlotLeft, chart, pipeline_svg(estimate.times));
  out += picture_legend(legend);
  for (size_t s = 0; s < stages.size(); ++s)
    out += memory_panel(stages[s], s, stages.size() > 1, most, panels + kPanelHeight * static_cast<double>(s));
  return out +
         fmt::format(
             "<text x=\"{}\" y=\"{:.1f}\">each bar is the fullest moment of its part of the step; of micro batches that ask for the same memory a few stand for all</text>\n</svg>\n",
             kPlotLeft, height - 10);
}

}  // namespace ravine
