#include "io/convert/torch_elements.h"

#include <cmath>

#include "files/convert.h"

namespace ravine {
namespace {

class Inside : public Elements {
 public:
  Inside(std::shared_ptr<const TorchFile> file, TorchTensor t, std::string name)
      : Elements(t.dtype, t.shape), file_(std::move(file)), t_(std::move(t)), name_(std::move(name)) {}
  void read(int64_t begin, std::span<std::byte> into) const override { file_->read(t_, begin, into); }
  std::string where() const override { return fmt::format("{}: '{}'", file_->path(), name_); }
  void files(std::set<std::string>& paths) const override { paths.insert(file_->path()); }

 private:
  std::shared_ptr<const TorchFile> file_;
  TorchTensor t_;
  std::string name_;
};

}  // namespace

ElementsPtr torch_elements(std::shared_ptr<const TorchFile> file, Pickle::Ref v, const std::string& name) {
  TorchTensor t = file->tensor(v, name);
  return std::make_shared<Inside>(std::move(file), std::move(t), name);
}

std::optional<double> torch_number(const TorchFile& f, Pickle::Ref v) {
  if (const auto number = f.pickle().real(v)) return number;
  if (!f.is_tensor(v)) return {};
  const TorchTensor t = f.tensor(v, "a number");
  if (t.shape.count() != 1) return {};
  std::byte bytes[8] = {};
  f.read(t, 0, {bytes, static_cast<size_t>(size_of(t.dtype))});
  double value = 0;
  convert(t.dtype, bytes, DType::f64, &value, 1);
  return value;
}

std::optional<int64_t> torch_whole_number(const TorchFile& f, Pickle::Ref v) {
  const auto x = torch_number(f, v);
  return x && *x == std::floor(*x) && std::abs(*x) < 1e15 ? std::optional(static_cast<int64_t>(*x)) : std::nullopt;
}

namespace {

Json plain_values(const Pickle& p, Pickle::Ref v, int depth, int64_t& left) {
  if (--left < 0 || depth > 4) return Json();
  switch (p.kind(v)) {
    case Pickle::Kind::boolean:
      return *p.boolean(v);
    case Pickle::Kind::integer:
      return *p.integer(v);
    case Pickle::Kind::real:
      return *p.real(v);
    case Pickle::Kind::text:
      return printable(p.text(v)->substr(0, 256));
    case Pickle::Kind::list:
    case Pickle::Kind::tuple: {
      Json out = Json::array();
      for (Pickle::Ref item : p.items(v)) {
        if (left <= 0) break;
        out.push_back(plain_values(p, item, depth + 1, left));
      }
      return out;
    }
    case Pickle::Kind::dict: {
      Json out = Json::object();
      for (size_t i = 0; i + 1 < p.items(v).size() && left > 0; i += 2)
        if (const auto key = p.text(p.items(v)[i]))
          out[printable(key->substr(0, 256))] = plain_values(p, p.items(v)[i + 1], depth + 1, left);
      return out;
    }
    default:
      return Json();
  }
}

}  // namespace

Json plain_values(const Pickle& p, Pickle::Ref v) {
  int64_t left = 4096;
  return plain_values(p, v, 0, left);
}

Json group_settings(const Pickle& p, Pickle::Ref groups) {
  Json out = Json::array();
  if (p.kind(groups) != Pickle::Kind::list) return out;
  for (const Pickle::Ref group : p.items(groups)) {
    if (!p.fields(group)) continue;
    out.push_back(Json::object());
    for (const char* key : {"weight_decay", "betas", "eps", "initial_lr"})
      if (const auto v = p.find(group, key)) out.back()[key] = plain_values(p, *v);
  }
  return out;
}

}  // namespace ravine
