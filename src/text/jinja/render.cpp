#include "text/jinja/render.h"

#include <algorithm>

#include "text/jinja/parser.h"
#include "text/jinja/run.h"

namespace ravine::jinja {
namespace {

Names values_of(const Json& variables) {
  Names out;
  for (const auto& [k, v] : variables.items()) out.emplace_back(k, from_json(v));
  return out;
}

}  // namespace

Template::Template(std::string_view source, std::string where) : where_(std::move(where)) {
  if (source.size() > kLongest) beyond("a template of {} bytes, at most {} are read", source.size(), kLongest);
  root_ = parse(source);
}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(const Json& variables, int64_t* work, int64_t most) const {
  Run r(*root_, values_of(variables), most);
  std::string text = r.named(where_, [&] { return r.text(); });
  if (work) *work = r.work();
  return text;
}

class Beginnings::Impl {
 public:
  Impl(const Template& all, const Json& variables, const std::string& list, int64_t most)
      : root_(*all.root_), where_(all.where_), variables_(values_of(variables)), most_(most) {
    auto it = std::find_if(variables_.begin(), variables_.end(), [&](const auto& e) { return e.first == list; });
    require(it != variables_.end() && it->second.is_list(), "beginnings: a list as variable, got another '{}'", list);
    at_ = static_cast<size_t>(it - variables_.begin());
    elements_ = std::make_shared<const List>(it->second.list());
    reach_.length = elements_->size();
    Names open = variables_;
    open[at_].second = Value(std::make_shared<const OpenList>(elements_, 0, &reach_), it->second.depth());
    run_ = std::make_unique<Run>(root_, std::move(open), most_);
    run_->named(where_, [&] { run_->begin(reach_); });
  }

  Text first(size_t n) {
    run_->named(where_, [&] { run_->advance(n); });
    if (run_->least() > n) return anew(n);
    return {run_->lead().size(), run_->named(where_, [&] { return run_->rest(n); })};
  }

  const std::string& lead() const { return run_->lead(); }
  int64_t work() const { return run_->work() + anew_; }

 private:
  Text anew(size_t n) {
    Names cut = variables_;
    cut[at_].second = List(elements_->begin(), elements_->begin() + static_cast<ptrdiff_t>(n));
    Run r(root_, std::move(cut), std::min(Budget::kWork, most_ - anew_));
    Text text{0, r.named(where_, [&] { return r.text(); })};
    anew_ += r.work();
    return text;
  }

  const Node& root_;
  const std::string& where_;
  Names variables_;
  size_t at_ = 0;
  std::shared_ptr<const List> elements_;
  Reach reach_;
  std::unique_ptr<Run> run_;
  int64_t most_, anew_ = 0;
};

Beginnings::Beginnings(const Template& all, const Json& variables, const std::string& list, int64_t most)
    : impl_(std::make_unique<Impl>(all, variables, list, most)) {}
Beginnings::~Beginnings() = default;
Beginnings::Text Beginnings::first(size_t n) { return impl_->first(n); }
const std::string& Beginnings::lead() const { return impl_->lead(); }
int64_t Beginnings::work() const { return impl_->work(); }

}  // namespace ravine::jinja
