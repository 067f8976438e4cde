#include "probe/compare_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/counted.h"
#include "probe/chart.h"

namespace ravine {
namespace {

constexpr size_t kMostOfPath = 40;

constexpr const char* kStyle = R"(
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1a1a1a; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-size: 13px; margin: .3rem 0 .6rem; width: 100%; }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { font-weight: 600; } td.text, th.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }
details { margin-left: 1rem; } summary { cursor: pointer; padding: .1rem 0; }
.mark { display: inline-block; min-width: 4.2rem; padding: 0 .4rem; margin-right: .5rem; border-radius: 3px; text-align: center; font-size: 12px; }
.same { background: #e4e4e4; } .far { background: #cfe8cf; } .near { background: #f7e6a8; } .beyond { background: #f2b0a5; font-weight: 600; }
.legend span { margin-right: 1rem; }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #e6e6e6; } th, td { border-color: #3a3a3a; } .mark { color: #111; } }
)";

// Returns error / bound; below 0: equal bits, or not judged.
double weight_of(const ComparedPair& p) {
  if (p.same()) return -1;
  if (p.beyond()) return std::isfinite(p.ratio()) && p.ratio() > 1 ? p.ratio() : std::numeric_limits<double>::infinity();
  return p.judged ? p.ratio() : -0.5;
}

std::string mark(double weight) {
  if (weight <= -1) return R"(<span class="mark same">bits</span>)";
  if (weight < 0) return R"(<span class="mark same">-</span>)";
  const char* kind = weight > 1 ? "beyond" : weight > 0.1 ? "near" : "far";
  return fmt::format(R"(<span class="mark {}">{}</span>)", kind,
                     std::isfinite(weight) ? fmt::format("{:.2g}", weight) : "beyond");
}

struct Node {
  std::map<std::string, std::unique_ptr<Node>> below;  // by segment of the path
  std::vector<std::string> order;                      // keys of `below` in the order of the run
  std::vector<const ComparedPair*> pairs;
  double worst = -1;
  bool opened = false;  // the first difference is below
};

void add(Node& root, const ComparedPair& p, bool opened) {
  Node* node = &root;
  const double weight = weight_of(p);
  node->worst = std::max(node->worst, weight);
  const std::string path = p.a.path.empty() ? "(no path)" : p.a.path;
  for (size_t at = 0; at <= path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    const std::string segment = path.substr(at, dot - at);
    auto& next = node->below[segment];
    if (!next) next = std::make_unique<Node>(), node->order.push_back(segment);
    node = next.get();
    node->worst = std::max(node->worst, weight);
    node->opened |= opened;
    at = dot + 1;
  }
  node->pairs.push_back(&p);
}

std::string figures(const DumpRecord& r) {
  const TensorFigures& f = r.figures;
  if (!f.has_statistics) return "";
  std::string out = fmt::format("|x| {:.5g}, {:.4g} .. {:.4g}", f.l2, f.min, f.max);
  if (!f.all_finite()) out += fmt::format(", {} not finite", f.count - f.finite);
  return out;
}

void write_pairs(const Node& node, std::string& out) {
  std::vector<const ComparedPair*> rows = node.pairs;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ComparedPair* x, const ComparedPair* y) { return weight_of(*x) > weight_of(*y); });
  const size_t shown = std::min(rows.size(), kMostOfPath);
  out +=
      R"(<table><tr><th></th><th class="text">call</th><th class="text">tensor</th><th>error</th><th>bound</th><th class="text">A</th><th class="text">B</th></tr>)";
  for (size_t i = 0; i < shown; ++i) {
    const ComparedPair& p = *rows[i];
    out += fmt::format(
        R"(<tr><td>{}</td><td class="text">step {}, {}, {}{}</td><td class="text">{}, {}</td><td>{}</td><td>{}</td><td class="text">{}</td><td class="text">{}</td></tr>)",
        mark(weight_of(p)), p.a.step, name(p.a.phase), xml_escaped(p.a.op), p.a.n > 0 ? fmt::format(" [{}]", p.a.n) : "",
        xml_escaped(p.a.tensor), p.a.output ? "written" : "read",
        std::isfinite(p.error) ? fmt::format("{:.2e}", p.error) : "inf",
        p.judged ? fmt::format("{:.2e}", p.own + p.inherited) : "", xml_escaped(figures(p.a)), xml_escaped(figures(p.b)));
  }
  out += "</table>";
  if (rows.size() > shown) out += fmt::format("<p>and {} more: pairs.csv has all</p>", rows.size() - shown);
}

void write_node(const Node& node, std::string& out) {
  if (!node.pairs.empty()) write_pairs(node, out);
  for (const std::string& segment : node.order) {
    const Node& below = *node.below.at(segment);
    const bool last = below.opened && std::none_of(below.below.begin(), below.below.end(),
                                                   [](const auto& next) { return next.second->opened; });
    out += fmt::format("<details{}{}><summary>{}{}{}</summary>", last ? R"( id="first")" : "", below.opened ? " open" : "",
                       mark(below.worst), xml_escaped(segment), last ? " (the first difference)" : "");
    write_node(below, out);
    out += "</details>\n";
  }
}

// Returns the pair of the first culprit, else the first pair above its bound; null: there is none.
const ComparedPair* first_difference(const Comparison& c) {
  const auto at = [&](auto&& is) {
    const auto found = std::find_if(c.pairs.begin(), c.pairs.end(), is);
    return found == c.pairs.end() ? nullptr : &*found;
  };
  const auto beyond = [](const ComparedPair& p) { return p.beyond(); };
  if (c.culprits.empty()) return at(beyond);
  const Culprit& k = c.culprits.front();
  const auto of_it = [&](const ComparedPair& p) {
    return p.a.step == k.step && name(p.a.phase) == k.phase && p.a.path == k.path && p.a.op == k.op;
  };
  if (const ComparedPair* p = at([&](const ComparedPair& p) { return of_it(p) && p.beyond(); })) return p;
  if (const ComparedPair* p = at(of_it)) return p;
  return at(beyond);  // an input that no call has made: shown at the first call that reads it
}

}  // namespace

std::string comparison_page(const Comparison& c, const std::string& a, const std::string& b) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>ravine compare</title><style>{}</style></head><body>\n"
      "<h1>{}</h1>\n<p>A: {}<br>B: {}</p>\n<p>{}</p>\n",
      kStyle, c.agrees() ? "No difference that roundings do not explain" : "The two differ", xml_escaped(a), xml_escaped(b),
      xml_escaped(c.verdict));
  if (!c.culprits.empty()) {
    out +=
        R"(<h2>Culprits</h2><table><tr><th>step</th><th class="text">kind</th><th class="text">op</th><th class="text">path</th><th class="text">tensor</th><th class="text">looks so</th><th>error</th><th>bound</th><th>alike</th></tr>)";
    for (const Culprit& k : c.culprits)
      out += fmt::format(
          R"(<tr><td>{}</td><td class="text">{}</td><td class="text">{}</td><td class="text">{}</td><td class="text">{}</td><td class="text">{}</td><td>{:.2e}</td><td>{:.2e}</td><td>{}</td></tr>)",
          k.step, name(k.kind), xml_escaped(k.op), xml_escaped(k.path), xml_escaped(k.tensor), xml_escaped(k.hypothesis),
          k.error, k.bound, k.alike);
    out += "</table>\n";
  }
  Node root;
  const ComparedPair* first = first_difference(c);
  for (const ComparedPair& p : c.pairs) add(root, p, &p == first);
  out +=
      R"(<h2>The model, by error over bound</h2><p class="legend"><span><span class="mark same">bits</span>equal</span><span><span class="mark far">0.01</span>roundings</span><span><span class="mark near">0.5</span>near its bound</span><span><span class="mark beyond">3</span>beyond it</span><span><span class="mark same">-</span>not judged</span></p>)";
  if (first) out += R"(<p><a href="#first">The first difference</a> is open.</p>)";
  write_node(root, out);
  if (!c.unmatched.empty()) {
    out += fmt::format("<details><summary>{} without a partner</summary><ul>",
                       counted(static_cast<int64_t>(c.unmatched.size()), "group or tensor"));
    for (size_t i = 0; i < std::min<size_t>(c.unmatched.size(), 500); ++i)
      out += "<li>" + xml_escaped(c.unmatched[i]) + "</li>";
    out += "</ul></details>";
  }
  return out + "</body></html>\n";
}

}  // namespace ravine
