#include "parallel/copies.h"

#include <algorithm>

namespace ravine {
namespace {

struct CopiedPart {
  int64_t begin = 0, end = 0;  // of the bucket
  int copies = 1;
};

// Spans side by side are one message.
std::vector<CopiedPart> copied_parts(const Bucket& bucket, Range there, int ranks) {
  std::vector<CopiedPart> out;
  for (const Bucket::Span& s : bucket.spans) {
    const int copies = copies_of(*s.param, ranks);
    CopiedPart p{std::max(s.begin, there.begin), std::min(s.begin + s.shape.count(), there.begin + there.count), copies};
    if (copies == 1 || p.begin >= p.end) continue;
    if (!out.empty() && out.back().end == p.begin && out.back().copies == copies)
      out.back().end = p.end;
    else
      out.push_back(p);
  }
  return out;
}

}  // namespace

void sum_copies(Ctx& c, const Group& tensor, const Bucket& bucket, Range there, const TensorView& grad) {
  if (tensor.size() == 1 || !bucket.cut || grad.absent()) return;
  auto piece = [](const TensorView& v, int64_t begin, int64_t count) {
    return view_of(v.data ? v.as<std::byte>() + begin * size_of(v.dtype) : nullptr, v.dtype, {count}, v.device);
  };
  for (const CopiedPart& p : copied_parts(bucket, there, tensor.size())) {
    const int64_t count = p.end - p.begin, bytes = count * size_of(grad.dtype);
    const int first = tensor.rank() / p.copies * p.copies;
    const TensorView mine = piece(grad, p.begin - there.begin, count);
    Tensor all = c.empty({p.copies * count}, grad.dtype, MemoryKind::workspace);
    {
      std::vector<Pending> moves;
      for (int i = 0; i < p.copies; ++i) {
        const TensorView place = piece(all.view(), i * count, count);
        if (first + i == tensor.rank()) {
          c.call(Cast{mine, place});
          continue;
        }
        moves.push_back(tensor.receive(place.data, bytes, first + i));
        moves.push_back(tensor.send(mine.data, bytes, first + i));
      }
    }  // waits
    for (int stride = 1; stride < p.copies; stride *= 2)
      for (int i = 0; i + stride < p.copies; i += 2 * stride) {
        const TensorView a = piece(all.view(), i * count, count);
        c.call(Add{a, piece(all.view(), (i + stride) * count, count), a});
      }
    c.call(Cast{piece(all.view(), 0, count), mine});
  }
}

}  // namespace ravine
