#include <ctime>

#include "text/jinja/run.h"

namespace ravine::jinja {
namespace {

constexpr int64_t kLongestRange = 100000;

}  // namespace

void Run::set_globals(Scope& globals) {
  auto define = [&](const char* name, Function f) { globals.names.emplace_back(name, Value(std::move(f))); };
  define("range", Function([](Arguments& a) {
           a.at_most("range", 3);
           auto n = [&](size_t i) {
             if (!a.args[i].is_number() || a.args[i].is_float()) raise("range needs integers");
             return a.args[i].integer();
           };
           if (a.args.empty()) raise("range needs a number");
           int64_t from = a.args.size() > 1 ? n(0) : 0, to = a.args.size() > 1 ? n(1) : n(0), by = a.args.size() > 2 ? n(2) : 1;
           if (by == 0) raise("range() arg 3 must not be zero");
           List l;
           for (int64_t i = from; by > 0 ? i < to : i > to;) {
             if (static_cast<int64_t>(l.size()) >= kLongestRange) beyond("range too big, at most {}", kLongestRange);
             a.budget->list(1);
             l.emplace_back(i);
             if (__builtin_add_overflow(i, by, &i)) break;
           }
           return Value::range(std::move(l));
         }));
  define("dict", Function([](Arguments& a) {
           Dict d;
           auto put = [&](const Value& key, const Value& value) {
             if (const Value* known = lookup(d, key, *a.budget))
               *const_cast<Value*>(known) = value;
             else
               d.emplace_back(key, value);
           };
           a.at_most("dict", 1);
           if (!a.args.empty() && a.args[0].is_dict()) {
             a.budget->list(2 * a.args[0].dict().size());
             d = a.args[0].dict();
           } else if (!a.args.empty()) {
             const Value all = items(a.args[0], *a.budget);
             a.budget->list(4 * all.list().size());
             for (const Value& pair : all.list()) {
               if (!pair.is_list() || pair.list().size() != 2) raise("dict needs pairs");
               put(pair.list()[0], pair.list()[1]);
             }
           }
           a.budget->list(4 * a.named.size());
           for (auto& [k, v] : a.named) put(Value(k), v);
           return Value(std::move(d));
         }));
  define("namespace", Function([this](Arguments& a) {
           Namespace& n = scopes_.space();
           if (!a.args.empty() && a.args[0].is_dict())
             for (const auto& [k, v] : a.args[0].dict()) scopes_.set(n, str(k, budget_), v);
           for (auto& [k, v] : a.named) scopes_.set(n, k, v);
           return Value(&n);
         }));
  define("cycler", Function([this](Arguments& a) {
           if (a.args.empty()) raise("at least one item has to be provided");
           Namespace& n = scopes_.space();
           n.cycler = Cycler{Value(a.args, true)};
           return Value(&n);
         }));
  define("joiner", Function([this](Arguments& a) {
           Namespace* used = &scopes_.space();
           const Value by = a.get(0, "sep", Value(", "));
           return Value(Function([this, used, by](Arguments&) {
                          if (used->find("used")) return by;
                          scopes_.set(*used, "used", true);
                          return Value("");
                        }),
                        by);
         }));
  define("raise_exception",
         Function([this](Arguments& a) -> Value { throw TemplateError(str(a.get(0, "message"), budget_)); }));
  define("strftime_now", Function([](Arguments& a) {
           Value format = a.get(0, "format");
           if (!format.is_string() || format.string().size() > 256) raise("strftime_now needs a format");
           std::time_t now = std::time(nullptr);
           std::tm local{};
           localtime_r(&now, &local);
           char text[1024];
           size_t n = std::strftime(text, sizeof text, format.string().c_str(), &local);
           return Value(std::string(text, n));
         }));
}

}  // namespace ravine::jinja
