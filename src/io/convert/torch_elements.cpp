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

std::optional<int64_t> torch_whole_number(const TorchFile& f, Pickle::Ref v) {
  const auto whole = [](double x) {
    return x == std::floor(x) && std::abs(x) < 1e15 ? std::optional(static_cast<int64_t>(x)) : std::nullopt;
  };
  if (const auto number = f.pickle().real(v)) return whole(*number);
  if (!f.is_tensor(v)) return {};
  const TorchTensor t = f.tensor(v, "step");
  if (t.shape.count() != 1) return {};
  std::byte bytes[8] = {};
  f.read(t, 0, {bytes, static_cast<size_t>(size_of(t.dtype))});
  double value = 0;
  convert(t.dtype, bytes, DType::f64, &value, 1);
  return whole(value);
}

}  // namespace ravine
