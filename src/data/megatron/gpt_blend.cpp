// Builds the three splits of a run, of one or several files.
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "data/indexed/indexed_tokens.h"
#include "data/megatron/gpt_dataset.h"

namespace ravine {

std::pair<size_t, int64_t> GptBlend::position(int64_t i) const {
  require(i >= 0 && i < size(), "gpt blend: sample is 0 to {}, got {}", size() - 1, i);
  if (!blended_) return {0, i};
  const int64_t part = dataset_.view()[static_cast<size_t>(i)], number = sample_.view()[static_cast<size_t>(i)];
  if (part < 0 || part >= static_cast<int64_t>(parts_.size()) || number < 0 ||
      number >= parts_[static_cast<size_t>(part)]->size())
    throw UserError("index files do not fit the data", description_.substr(0, 200),
                    fmt::format("sample {} is number {} of dataset {}", i, number, part),
                    "remove the index files: they are made again");
  return {static_cast<size_t>(part), number};
}

GptSample GptBlend::sample(int64_t i) const {
  auto [part, number] = position(i);
  return parts_[part]->sample(number);
}

std::string GptBlend::origin(int64_t i) const {
  auto [part, number] = position(i);
  return parts_[part]->origin(number);
}

int64_t GptBlend::part_of(int64_t i) const { return static_cast<int64_t>(position(i).first); }

int64_t GptBlend::tokens() const {
  int64_t sum = 0;
  for (const auto& p : parts_) sum += p->tokens();
  return sum;
}

struct GptBuilder {
  const std::vector<double>& weights;  // as set by the user; empty: by size
  const GptOptions& options;
  std::vector<std::shared_ptr<const IndexedFile>> files;
  SplitString split;

  // Returns the number of samples to request of a dataset for its share of `size` (with `surplus`), or its part of the
  // blend's size. The former is half a percent larger; in the 2023 order both are.
  int64_t requested_samples(int64_t size, double share, bool surplus) const {
    const double exact = static_cast<double>(size) * share;
    if (options.order == MegatronOrder::of_2023) return static_cast<int64_t>(std::ceil(exact * 1.005));
    return static_cast<int64_t>(std::ceil(std::ceil(exact) * (1 + (surplus ? 0.005 : 0.0))));
  }

  std::unique_ptr<GptBlend> build(MegatronSplit s, int64_t size) const {
    auto out = std::make_unique<GptBlend>();
    const std::vector<double> shares = weights.empty() ? weights : normalized(weights);
    for (size_t k = 0; k < files.size(); ++k) {
      const auto range = split.range(s, files[k]->sequences(), options.order);
      const int64_t samples = !shares.empty() ? requested_samples(size, shares[k], true) : files.size() == 1 ? size : -1;
      out->parts_.push_back(std::make_unique<GptDataset>(files[k], s, *range, samples, options));
    }
    if (files.size() == 1 && weights.empty()) {
      out->description_ = out->parts_[0]->description();
      return out;
    }
    out->blended_ = true;
    std::vector<double> blend = shares;
    std::vector<int64_t> sizes;
    bool all = false;  // every sample of every dataset
    if (!shares.empty()) {
      const int64_t wanted = size;
      size = 0;
      for (double share : shares) size += requested_samples(wanted, share, false);
    } else {
      for (const auto& p : out->parts_) sizes.push_back(p->size());
      blend.assign(sizes.begin(), sizes.end());
      const int64_t there = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
      if (there == 0)
        throw UserError("no samples in a split", name(s), "the files of the blend give none",
                        "give it a larger share or more data");
      all = size < 0;
      if (!all) size = std::min(size, there);
    }
    if (!all) blend = normalized(blend);
    std::vector<std::string> descriptions;
    for (const auto& p : out->parts_) descriptions.push_back(p->description());
    out->description_ = describe_blend(descriptions, options.order, s, blend, all, all ? -1 : size);
    const IndexCache cache(options.index_cache, "BlendedDataset", options.order, s, out->description_);
    if (cache.complete()) {
      auto d = cache.load<int16_t>("dataset_index", 1);
      auto i = cache.load<int64_t>("dataset_sample_index", 1);
      if (d && i && d->view().size() == i->view().size()) {
        out->dataset_ = std::move(*d), out->sample_ = std::move(*i);
        return out;
      }
    }
    BlendIndex index = all ? build_exhaustive_blend_index(sizes) : build_blend_index(blend, size);
    out->dataset_ = IndexArray<int16_t>(std::move(index.dataset));
    out->sample_ = IndexArray<int64_t>(std::move(index.sample));
    cache.save("dataset_index", out->dataset_.view(), 1);
    cache.save("dataset_sample_index", out->sample_.view(), 1);
    cache.save_description();
    return out;
  }
};

GptSplits build_gpt_splits(const std::vector<std::string>& prefixes, const std::vector<double>& weights,
                           const std::array<int64_t, 3>& sizes, const GptOptions& options) {
  auto refuse = [](const std::string& what, const std::string& rule, const std::string& fix) {
    throw UserError(what, "Megatron data order", rule, fix);
  };
  if (prefixes.empty()) refuse("no data", "at least one prefix of .bin/.idx files is needed", "name one");
  if (options.sequence_length < 1 || options.sequence_length > 1 << 24)
    refuse("wrong sequence length", fmt::format("1 to {}, got {}", 1 << 24, options.sequence_length), "choose another length");
  if (!weights.empty() && weights.size() != prefixes.size())
    refuse("wrong number of weights", fmt::format("one for each of {} prefixes, got {}", prefixes.size(), weights.size()),
           "give as many weights as prefixes");
  for (double w : weights)
    if (!std::isfinite(w) || w <= 0)
      refuse("wrong weight", fmt::format("weights are above 0, got {}", w), "leave the source out instead");
  if (weights.empty() && prefixes.size() > 1 && options.order == MegatronOrder::of_2023)
    refuse("no weights", "the 2023 order blends by weights only", "give a weight for each prefix");
  if ((options.reset_attention_mask || options.reset_position_ids || options.eod_mask_loss) && options.eod < 0)
    refuse("no end-of-document id", "masks at document ends need it", "name it, or a tokenizer that has an end token");
  if (options.order == MegatronOrder::of_2023 && (options.partial_valid || !options.extra_token))
    refuse("option of a later order", "partial validation samples and samples without an extra token came after 2023",
           "use the order megatron");
  GptBuilder builder{weights, options, {}, SplitString(options.split)};
  for (const std::string& path : prefixes) builder.files.push_back(open_token_file(path, options.vocabulary));
  GptSplits out;
  for (MegatronSplit s : kMegatronSplits) {
    const auto i = static_cast<size_t>(s);
    if (sizes[i] == 0 || !builder.split.shares(s)) continue;
    if (sizes[i] < 0 && !weights.empty())
      refuse(fmt::format("no number of {} samples", name(s)), "a blend by weights needs one",
             "give the number of samples, or no weights");
    out[i] = builder.build(s, sizes[i]);
  }
  return out;
}

}  // namespace ravine
