#include "io/convert/megatron_distrib.h"

#include <algorithm>
#include <filesystem>

#include "base/checked.h"
#include "files/convert.h"
#include "io/convert/torch_elements.h"

namespace ravine {
namespace {

[[noreturn]] void refuse_distrib(const std::string& where, const std::string& rule) {
  throw UserError("distributed optimizer cannot be read", where, rule,
                  "use a complete checkpoint of Megatron's, or leave out --optimizer");
}

// Returns the entry of a dict whose keys are numbers.
std::optional<Pickle::Ref> entry_of(const Pickle& p, Pickle::Ref dict, int64_t number) {
  const auto* fields = p.fields(dict);
  for (size_t i = 0; fields && i < fields->size(); i += 2)
    if (p.kind((*fields)[i]) == Pickle::Kind::integer && p.integer((*fields)[i]) == number) return (*fields)[i + 1];
  return {};
}

bool is_tied_embedding(const std::string& name) {
  return name.ends_with("word_embeddings.weight") || name.ends_with("output_layer.weight") ||
         name == "word_embeddings_for_head.weight";
}

// The state of a chunk in its file: one flat tensor, or one per bucket.
struct Buffer {
  std::string where;
  std::vector<ElementsPtr> buckets;
  bool coalesced = false;
};

// Returns the dict that the chunk stores under its types. There is one such entry, since all parameters have one type.
Pickle::Ref of_types(const TorchFile& f, size_t chunk, const std::string& where) {
  const Pickle& p = f.pickle();
  const auto types = entry_of(p, p.root(), static_cast<int64_t>(chunk));
  const auto* fields = types ? p.fields(*types) : nullptr;
  if (!fields) refuse_distrib(where, "it is a dict of dicts by the types of the parameters");
  if (fields->size() != 2)
    refuse_distrib(where, fmt::format("parameters of one type lie in it, it has {} entries", fields->size() / 2));
  if (!p.fields((*fields)[1])) refuse_distrib(where, "under the type lies a dict with 'param', 'exp_avg' and 'exp_avg_sq'");
  return (*fields)[1];
}

Buffer read_buffer(const std::shared_ptr<const TorchFile>& f, size_t chunk, const char* key) {
  const Pickle& p = f->pickle();
  Buffer b{fmt::format("{}: [{}]", f->path(), chunk), {}, false};
  const Pickle::Ref state = of_types(*f, chunk, b.where);
  const auto value = p.find(state, key);
  if (!value) refuse_distrib(b.where, fmt::format("it must hold '{}'", key));
  const bool list = p.kind(*value) == Pickle::Kind::list;
  const std::vector<Pickle::Ref> one{*value};
  for (Pickle::Ref v : list ? p.items(*value) : one) {
    b.buckets.push_back(torch_elements(f, v, fmt::format("{} {} of chunk {}", key, b.buckets.size(), chunk)));
    const Elements& e = *b.buckets.back();
    if (e.shape().rank() != 1 || e.dtype() != DType::f32)
      refuse_distrib(e.where(), fmt::format("it is a flat tensor of f32, got {} {}", name(e.dtype()), e.shape().text()));
  }
  if (b.buckets.empty()) refuse_distrib(b.where, fmt::format("'{}' is an empty list", key));
  if (const auto declared = p.find(state, "numel_unpadded")) {
    if (list || p.integer(*declared) != b.buckets[0]->count())
      refuse_distrib(b.where, fmt::format("numel_unpadded is the size of '{}', {}, it is {}", key, b.buckets[0]->count(),
                                          p.integer(*declared).value_or(-1)));
    b.coalesced = true;
  }
  // The recorded sizes of the buckets, a list of dicts by type.
  for (const char* sizes : {"per_bucket_numel", "per_bucket_numel_unpadded"}) {
    const auto all = p.find(p.root(), sizes);
    if (!all) continue;
    const auto bad = [&] {
      refuse_distrib(fmt::format("{}: {}", f->path(), sizes),
                     fmt::format("for chunk {} it holds the sizes of its {} buckets", chunk, b.buckets.size()));
    };
    if (p.kind(*all) != Pickle::Kind::list || chunk >= p.items(*all).size()) bad();
    const auto* types = p.fields(p.items(*all)[chunk]);
    if (!types || types->size() != 2 || p.kind((*types)[1]) != Pickle::Kind::list ||
        p.items((*types)[1]).size() != b.buckets.size())
      bad();
    for (size_t i = 0; i < b.buckets.size(); ++i) {
      const int64_t declared = p.integer(p.items((*types)[1])[i]).value_or(-1);
      const bool whole = std::string_view(sizes) == "per_bucket_numel";
      if (declared < 1 || (whole ? declared != b.buckets[i]->count() : declared > b.buckets[i]->count())) bad();
      if (whole) continue;
      b.buckets[i] = assembled({declared}, {{b.buckets[i], 0, 0, 0, 0, 1, declared}}, "less its padding");
    }
  }
  return b;
}

// Returns the elements from `begin` in shape `shape`, which must be in one bucket of the concatenated buckets; null if
// they are not.
ElementsPtr slice(const std::vector<ElementsPtr>& buckets, int64_t begin, const Shape& shape, const std::string& rule) {
  const int64_t count = shape.count();
  for (const ElementsPtr& e : buckets) {
    if (begin < e->count()) {
      if (count > e->count() - begin) return nullptr;
      return assembled(shape, {{e, begin, 0, 0, 0, 1, count}}, rule);
    }
    begin -= e->count();
  }
  return nullptr;
}

// Returns the places of parameters in buckets of known size: each is in the first one that has room for it.
std::optional<DistribOffsets> offsets_in(const std::vector<int64_t>& counts, const std::vector<ElementsPtr>& buckets,
                                         int64_t alignment) {
  DistribOffsets out;
  out.begin.resize(counts.size());
  size_t bucket = 0;
  int64_t at = 0, before = 0;
  for (size_t i = counts.size(); i-- > 0;) {
    at = round_up(at, alignment);
    while (bucket < buckets.size() && counts[i] > buckets[bucket]->count() - at) before += buckets[bucket++]->count(), at = 0;
    if (bucket == buckets.size()) return {};
    out.begin[i] = before + at;
    at += counts[i];
  }
  if (bucket + 1 != buckets.size()) return {};
  out.count = before + buckets[bucket]->count();
  return out;
}

// True if the masters, rounded, equal the weight. Compares the first and the last elements.
bool is_master(const Elements& master, const Elements& weight) {
  constexpr int64_t kLook = 32;
  const int64_t n = std::min<int64_t>(kLook, weight.count());
  const int64_t size = size_of(weight.dtype());
  std::vector<float> wide(static_cast<size_t>(n));
  std::vector<std::byte> rounded(static_cast<size_t>(n * size)), stored(rounded.size());
  for (const int64_t begin : {int64_t{0}, weight.count() - n}) {
    master.read(begin, std::as_writable_bytes(std::span(wide)));
    convert(DType::f32, wide.data(), weight.dtype(), rounded.data(), n);
    weight.read(begin, stored);
    if (rounded != stored) return false;
  }
  return true;
}

// Returns all possible layouts of the parameters in the buffer.
std::vector<DistribOffsets> candidates(const std::vector<int64_t>& counts, const Buffer& b, int64_t tied, const TorchFile& f) {
  std::vector<DistribOffsets> out;
  if (!b.coalesced) {
    for (const int64_t alignment : {1, 64})
      if (const auto p = offsets_in(counts, b.buckets, alignment)) out.push_back(*p);
    return out;
  }
  const int64_t ranks = std::clamp<int64_t>(argument(f, "data_parallel_size").value_or(1), 1, 1 << 20);
  const int64_t usual = std::max<int64_t>(40'000'000, 1'000'000 * ranks), declared = argument(f, "ddp_bucket_size").value_or(0);
  for (const int64_t alignment : {64, 1})
    for (const bool shared : {false, true})
      for (const int64_t bucket : {int64_t{0}, usual, declared})
        if (const DistribOffsets p = distrib_offsets(counts, {alignment, std::max<int64_t>(bucket, 0), shared}, tied);
            p.count == b.buckets[0]->count())
          out.push_back(p);
  return out;
}

}  // namespace

DistribOffsets distrib_offsets(const std::vector<int64_t>& counts, const DistribLayout& l, int64_t tied) {
  DistribOffsets out;
  out.begin.resize(counts.size());
  int64_t closed = 0, at = 0;  // closed: elements of the full buckets; at: of the open one
  const auto close = [&] { closed += at, at = 0; };
  for (auto i = static_cast<int64_t>(counts.size()); i-- > 0;) {
    const bool alone = l.shared && i == tied;
    at = round_up(at, l.alignment);
    if (alone) close();
    out.begin[static_cast<size_t>(i)] = closed + at;
    at += counts[static_cast<size_t>(i)];
    if (alone || (l.bucket > 0 && at >= l.bucket)) close();
  }
  out.count = closed + at;
  return out;
}

std::string distrib_file(const std::string& rank_file) {
  return (std::filesystem::path(rank_file).parent_path() / "distrib_optim.pt").string();
}

void take_from_distrib(MegatronRank& rank, StateKind kind) {
  const auto f = std::make_shared<const TorchFile>(distrib_file(rank.file->path()));
  const Pickle& p = f->pickle();
  if (p.kind(p.root()) == Pickle::Kind::list)
    refuse_distrib(f->path(), "it is of one optimizer; several, of which one has the experts, are not read");
  if (!p.fields(p.root())) refuse_distrib(f->path(), "it is a dict by chunks of the model");
  for (size_t c = 0; c < rank.chunks.size(); ++c) {
    const std::vector<MegatronRank::Tensor*> params = parameters_of(rank.chunks[c]);
    std::vector<int64_t> counts;
    int64_t tied = -1;
    for (const MegatronRank::Tensor* t : params) {
      if (is_tied_embedding(t->name) && tied < 0) tied = static_cast<int64_t>(counts.size());
      counts.push_back(t->elements->count());
    }
    const Buffer masters = read_buffer(f, c, "param");
    const auto all = candidates(counts, masters, tied, *rank.file);
    std::string unlike;
    const auto fits = [&](const DistribOffsets& offsets) {
      for (size_t i = 0; i < params.size(); ++i) {
        const ElementsPtr master = slice(masters.buckets, offsets.begin[i], params[i]->elements->shape(), "of a flat buffer");
        if (master && is_master(*master, *params[i]->elements)) continue;
        unlike = params[i]->name;
        return false;
      }
      return true;
    };
    const auto offsets = std::find_if(all.begin(), all.end(), fits);
    if (all.empty())
      refuse_distrib(masters.where, fmt::format("the {} parameters of the chunk, the last first, must fill its {} buckets",
                                                params.size(), masters.buckets.size()));
    if (offsets == all.end())
      refuse_distrib(
          masters.where,
          fmt::format("masters, rounded, are the weights: those of '{}' are not, so that it is of another model, order or step",
                      printable(unlike)));
    const Buffer state = kind == StateKind::masters        ? masters
                         : kind == StateKind::first_moment ? read_buffer(f, c, "exp_avg")
                                                           : read_buffer(f, c, "exp_avg_sq");
    for (size_t i = 0; i < params.size(); ++i) {
      const ElementsPtr e = slice(state.buckets, offsets->begin[i], params[i]->elements->shape(),
                                  fmt::format("of the flat buffer of chunk {}", c));
      if (!e)
        refuse_distrib(state.where, fmt::format("'{}' lies as 'param' does, beyond its {} buckets", printable(params[i]->name),
                                                state.buckets.size()));
      params[i]->elements = e;
    }
  }
}

}  // namespace ravine
