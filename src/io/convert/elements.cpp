#include "io/convert/elements.h"

#include <algorithm>
#include <cstring>

#include "files/convert.h"

namespace ravine {
namespace {

class Stored : public Elements {
 public:
  Stored(std::shared_ptr<const TensorFile> file, const TensorInfo& info)
      : Elements(info.dtype, info.shape), file_(std::move(file)), info_(info) {}
  void read(int64_t begin, std::span<std::byte> into) const override { file_->read(info_, begin * size_of(dtype()), into); }
  std::string where() const override { return fmt::format("{}: tensor '{}'", file_->path(), printable(info_.name)); }
  void files(std::set<std::string>& paths) const override { paths.insert(file_->path()); }

 private:
  std::shared_ptr<const TensorFile> file_;
  const TensorInfo& info_;  // owned by the file
};

class InMemory : public Elements {
 public:
  InMemory(DType dtype, const Shape& shape, std::vector<std::byte> bytes) : Elements(dtype, shape), bytes_(std::move(bytes)) {}
  void read(int64_t begin, std::span<std::byte> into) const override {
    if (!into.empty()) std::memcpy(into.data(), bytes_.data() + begin * size_of(dtype()), into.size());
  }
  std::string where() const override { return "computed"; }

 private:
  std::vector<std::byte> bytes_;
};

class Reshaped : public Elements {
 public:
  Reshaped(ElementsPtr from, const Shape& shape) : Elements(from->dtype(), shape), from_(std::move(from)) {}
  void read(int64_t begin, std::span<std::byte> into) const override { from_->read(begin, into); }
  std::string where() const override { return from_->where(); }
  void files(std::set<std::string>& paths) const override { from_->files(paths); }

 private:
  ElementsPtr from_;
};

class AsType : public Elements {
 public:
  AsType(ElementsPtr from, DType dtype) : Elements(dtype, from->shape()), from_(std::move(from)) {}
  void read(int64_t begin, std::span<std::byte> into) const override {
    const int64_t count = static_cast<int64_t>(into.size()) / size_of(dtype());
    std::vector<std::byte> source(static_cast<size_t>(count * size_of(from_->dtype())));
    from_->read(begin, source);
    convert(from_->dtype(), source.data(), dtype(), into.data(), count);
  }
  std::string where() const override { return from_->where(); }
  void files(std::set<std::string>& paths) const override { from_->files(paths); }

 private:
  ElementsPtr from_;
};

// A transposed matrix: row r is column r of the source.
class Transposed : public Elements {
 public:
  explicit Transposed(ElementsPtr from)
      : Elements(from->dtype(), {from->shape()[1], from->shape()[0]}), from_(std::move(from)) {}
  void read(int64_t begin, std::span<std::byte> into) const override {
    const int64_t size = size_of(dtype()), rows = shape()[0], cols = shape()[1],
                  end = begin + static_cast<int64_t>(into.size()) / size;
    const int64_t first = begin / cols, last = ceil_div(end, cols);  // result rows: a run in each row of the source
    std::vector<std::byte> run(static_cast<size_t>((last - first) * size));
    for (int64_t c = 0; c < cols; ++c) {
      from_->read(c * rows + first, run);
      for (int64_t r = first; r < last; ++r)
        if (const int64_t at = r * cols + c; at >= begin && at < end)
          std::memcpy(into.data() + (at - begin) * size, run.data() + (r - first) * size, static_cast<size_t>(size));
    }
  }
  std::string where() const override { return "transposed " + from_->where(); }
  void files(std::set<std::string>& paths) const override { from_->files(paths); }

 private:
  ElementsPtr from_;
};

class Zeros : public Elements {
 public:
  using Elements::Elements;
  void read(int64_t, std::span<std::byte> into) const override { std::memset(into.data(), 0, into.size()); }
  std::string where() const override { return "zeros"; }
};

class Assembled : public Elements {
 public:
  Assembled(DType dtype, const Shape& shape, std::vector<Copy> copies, std::string rule)
      : Elements(dtype, shape), copies_(std::move(copies)), rule_(std::move(rule)) {}

  void read(int64_t begin, std::span<std::byte> into) const override {
    const int64_t size = size_of(dtype()), end = begin + static_cast<int64_t>(into.size()) / size;
    for (const Copy& c : copies_) {
      // Only runs that overlap [begin, end) are read.
      int64_t first = 0, last = c.rows - 1;
      if (c.to_step > 0) {
        first = std::max<int64_t>(first, begin - c.to - c.cols >= 0 ? (begin - c.to - c.cols) / c.to_step + 1 : 0);
        if (end <= c.to) continue;
        last = std::min(last, (end - 1 - c.to) / c.to_step);
      }
      for (int64_t r = first; r <= last; ++r) {
        const int64_t to = c.to + r * c.to_step, low = std::max(begin, to), high = std::min(end, to + c.cols);
        if (low >= high) continue;
        c.source->read(c.from + r * c.from_step + low - to,
                       into.subspan(static_cast<size_t>((low - begin) * size), static_cast<size_t>((high - low) * size)));
      }
    }
  }
  void files(std::set<std::string>& paths) const override {
    for (const Copy& c : copies_) c.source->files(paths);
  }
  std::string where() const override {
    return copies_.empty() ? rule_ : fmt::format("{} of {}", rule_, copies_[0].source->where());
  }

 private:
  std::vector<Copy> copies_;
  std::string rule_;
};

int64_t width(const Elements& e) { return e.shape().rank() < 2 ? 1 : e.count() / std::max<int64_t>(e.shape()[0], 1); }

}  // namespace

ElementsPtr stored(std::shared_ptr<const TensorFile> file, const TensorInfo& tensor) {
  return std::make_shared<Stored>(std::move(file), tensor);
}

ElementsPtr in_memory(DType dtype, const Shape& shape, std::vector<std::byte> bytes) {
  require(static_cast<int64_t>(bytes.size()) == shape.count() * size_of(dtype), "in_memory: bytes of shape {}, got {}",
          shape.text(), bytes.size());
  return std::make_shared<InMemory>(dtype, shape, std::move(bytes));
}

ElementsPtr transposed(ElementsPtr source) {
  require(source->shape().rank() == 2, "transposed: a matrix, got {}", source->shape().text());
  return std::make_shared<Transposed>(std::move(source));
}

ElementsPtr zeros(DType dtype, const Shape& shape) { return std::make_shared<Zeros>(dtype, shape); }

ElementsPtr reshaped(ElementsPtr from, const Shape& shape) {
  require(from->count() == shape.count(), "reshaped: {} elements for {}", from->count(), shape.text());
  return std::make_shared<Reshaped>(std::move(from), shape);
}

ElementsPtr as_type(ElementsPtr from, DType dtype) {
  if (from->dtype() == dtype) return from;
  return std::make_shared<AsType>(std::move(from), dtype);
}

ElementsPtr assembled(const Shape& shape, std::vector<Copy> copies, const std::string& rule) {
  std::erase_if(copies, [](const Copy& c) { return c.rows * c.cols == 0; });
  int64_t sum = 0;
  for (Copy& c : copies) {
    require(c.from >= 0 && c.from + (c.rows - 1) * c.from_step + c.cols <= c.source->count(),
            "assembled: {} reads past the {} elements of {}", rule, c.source->count(), c.source->where());
    sum += c.rows * c.cols;
    if (c.rows > 1 && c.from_step == c.cols && c.to_step == c.cols) c.cols *= c.rows, c.rows = 1;
    if (c.source->dtype() != copies[0].source->dtype())
      throw UserError("parts of two types", c.source->where(),
                      fmt::format("it is {}, but {} is {}", name(c.source->dtype()), copies[0].source->where(),
                                  name(copies[0].source->dtype())),
                      "use parts of one checkpoint");
  }
  require(sum == shape.count(), "assembled: {} copies {} of {} elements", rule, sum, shape.count());
  const DType dtype = copies.empty() ? DType::f32 : copies[0].source->dtype();
  return std::make_shared<Assembled>(dtype, shape, std::move(copies), rule);
}

ElementsPtr stack_rows(const std::vector<Rows>& rows, const std::string& rule) {
  require(!rows.empty(), "stack_rows: {} of nothing", rule);
  std::vector<Copy> copies;
  const int64_t wide = width(*rows[0].source);
  int64_t to = 0;
  for (const Rows& r : rows) {
    require(width(*r.source) == wide, "stack_rows: {} of widths {} and {}", rule, wide, width(*r.source));
    copies.push_back({.source = r.source,
                      .from = r.first * wide,
                      .from_step = r.step * wide,
                      .to = to * wide,
                      .to_step = wide,
                      .rows = r.count,
                      .cols = wide});
    to += r.count;
  }
  Shape shape = rows[0].source->shape();
  shape[0] = to;
  return assembled(shape, std::move(copies), rule);
}

ElementsPtr interleave_rows(const std::vector<ElementsPtr>& sources, const std::string& rule) {
  const auto n = static_cast<int64_t>(sources.size());
  std::vector<Copy> copies;
  const int64_t wide = width(*sources[0]), rows = sources[0]->shape()[0];
  for (int64_t i = 0; i < n; ++i)
    copies.push_back({.source = sources[static_cast<size_t>(i)],
                      .from_step = wide,
                      .to = i * wide,
                      .to_step = n * wide,
                      .rows = rows,
                      .cols = wide});
  Shape shape = sources[0]->shape();
  shape[0] = n * rows;
  return assembled(shape, std::move(copies), rule);
}

ElementsPtr join_cols(const std::vector<ElementsPtr>& parts, const std::string& rule) {
  int64_t all = 0, at = 0;
  for (const ElementsPtr& p : parts) all += p->shape()[1];
  const int64_t rows = parts[0]->shape()[0];
  std::vector<Copy> copies;
  for (const ElementsPtr& p : parts) {
    const int64_t cols = p->shape()[1];
    copies.push_back({.source = p, .from_step = cols, .to = at, .to_step = all, .rows = rows, .cols = cols});
    at += cols;
  }
  return assembled({rows, all}, std::move(copies), rule);
}

ElementsPtr take_cols(ElementsPtr source, int64_t first, int64_t count, const std::string& rule) {
  const int64_t rows = source->shape()[0], all = source->shape()[1];
  std::vector<Copy> copies{{source, first, all, 0, count, rows, count}};
  return assembled({rows, count}, std::move(copies), rule);
}

}  // namespace ravine
