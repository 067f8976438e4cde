#include <fmt/format.h>

#include <cmath>

#include "base/csv_text.h"
#include "probe/compare_dumps.h"

namespace ravine {
namespace {

Json number_or_null(double x) { return std::isfinite(x) ? Json(x) : Json(); }

}  // namespace

Json comparison_json(const Comparison& c) {
  auto culprit_json = [](const Culprit& k) {
    return Json{{"step", k.step},
                {"phase", k.phase},
                {"path", k.path},
                {"op", k.op},
                {"kind", name(k.kind)},
                {"hypothesis", k.hypothesis.empty() ? Json() : Json(k.hypothesis)},
                {"tensor", k.tensor},
                {"read_by", k.reader.empty() ? Json() : Json(k.reader)},
                {"micro_batch", k.micro},
                {"rank", k.rank},
                {"error", number_or_null(k.error)},
                {"bound", number_or_null(k.bound)},
                {"generates", k.generates.empty() ? Json() : Json(k.generates)},
                {"alike", k.alike}};
  };
  Json culprits = Json::array();
  for (const Culprit& k : c.culprits) culprits.push_back(culprit_json(k));
  Json j{{"equal", c.agrees()},
         {"verdict", c.verdict},
         {"culprit", culprits.empty() ? Json() : culprits.front()},
         {"culprits", culprits},
         {"pairs", c.pairs.size()},
         {"unmatched", c.unmatched},
         {"damaged_lines", {{"a", c.damaged_a}, {"b", c.damaged_b}}}};
  j["bitwise_equal"] = c.equal_bits;
  j["layouts_differ"] = c.layouts_differ;
  j["substituted"] = c.substituted, j["by_spread"] = c.by_spread, j["inherits"] = c.inherits;
  return j;
}

std::string pairs_csv(const Comparison& c) {
  std::string out =
      "rank,step,micro_batch,phase,path,op,call,tensor,side,dtype_a,dtype_b,shape,compared_by,error,bound_own,bound_inherited,error_over_bound,judged,beyond,generated_a,generated_bound_a,generated_b,generated_bound_b,cosine,max_abs,at,a_at,b_at,bias,max_ulp";
  for (const int64_t bin : kUlpBins) out += fmt::format(",ulp_to_{}", bin);
  out += ",ulp_more\n";
  for (const ComparedPair& p : c.pairs) {
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{},{}", p.rank, p.a.step, p.a.micro,
                       name(p.a.phase), csv_text(p.a.path), csv_text(p.a.op), p.a.n, csv_text(p.a.tensor),
                       p.a.output ? "output" : "input", name(p.a.dtype), name(p.b.dtype), csv_text(p.a.shape.text()),
                       name(p.by), p.error, p.own, p.inherited, p.ratio(), p.judged ? 1 : 0, p.beyond() ? 1 : 0);
    for (const std::optional<GeneratedError>& g : {p.generated_a, p.generated_b})
      out += g ? fmt::format(",{:.9g},{:.9g}", g->error, g->bound) : ",,";
    if (p.exact) {
      const PairErrors& e = *p.exact;
      out += fmt::format(",{:.12g},{:.9g},{},{},{},{:.9g},{}", e.cosine, e.max_abs, e.at, element_text(p.a.dtype, e.a_at, 17),
                         element_text(p.b.dtype, e.b_at, 17), e.bias, e.max_ulp);
      for (const int64_t n : e.ulps) out += fmt::format(",{}", n);
      out += "\n";
    } else {
      out += std::string(7 + kUlpBins.size() + 1, ',') + "\n";
    }
  }
  return out;
}

}  // namespace ravine
