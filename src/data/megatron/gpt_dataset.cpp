#include "data/megatron/gpt_dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/narrow_option.h"

namespace ravine {

namespace {

int64_t count_tokens(const IndexedFile& file, SplitRange range) {
  const auto bytes = file.lengths(range.begin, range.end);
  int64_t sum = 0;
  for (size_t at = 0; at < bytes.size(); at += 4) {
    int32_t length;
    std::memcpy(&length, bytes.data() + at, 4);
    if (length < 0) file.length(range.begin + static_cast<int64_t>(at / 4));  // throws the UserError
    sum += length;
  }
  return sum;
}

}  // namespace

GptDataset::GptDataset(std::shared_ptr<const IndexedFile> file, MegatronSplit split, SplitRange range, int64_t samples,
                       const GptOptions& options)
    : file_(std::move(file)), options_(options), range_(range) {
  require(range.begin >= 0 && range.begin <= range.end && range.end <= file_->sequences(),
          "gpt dataset: sequences {} to {} of {}", range.begin, range.end, file_->sequences());
  const SplitString split_string(options.split);
  description_ = describe({options.order, file_->prefix(), samples, options.seed, options.sequence_length, split, &split_string,
                           options.tokenizer});
  tokens_ = count_tokens(*file_, range);
  const bool core = options.order == MegatronOrder::core;
  const int extra = options.extra_token ? 1 : 0;
  const bool partial = options.partial_valid && split == MegatronSplit::valid;
  if (tokens_ == 0 && (samples > 0 || !core))
    throw UserError(
        "no tokens in a split", file_->prefix(),
        fmt::format("the split '{}' leaves none of {} sequences to {}", options.split, file_->sequences(), name(split)),
        "give it a larger share, ask for 0 samples of it, or give more data");
  if (options.seed < 0 || options.seed > UINT32_MAX)
    throw UserError("wrong seed", fmt::format("{}", options.seed), fmt::format("this data order takes 0 to {}", UINT32_MAX),
                    "choose another seed");

  const IndexCache cache(options.index_cache, "GPTDataset", options.order, split, description_);
  if (cache.complete()) {
    auto d = cache.load<int32_t>("document_index", 1), s = cache.load<int32_t>("sample_index", 2);
    auto h = cache.load<uint32_t>("shuffle_index", 1);
    if (d && s && h && s->view().size() == 2 * (h->view().size() + 1)) {
      documents_ = std::move(*d), samples_ = std::move(*s), shuffle_ = std::move(*h);
      return;
    }
  }
  const EpochPlan plan = tokens_ > 0 ? plan_epochs(tokens_, samples, options.sequence_length, extra) : EpochPlan{};
  NumpyRandomState random(narrow_option<uint32_t>(options.seed, "train.seed"));
  documents_ = IndexArray<int32_t>(build_document_index(range.begin, range.end, plan, random));
  const int64_t n = sample_count(tokens_, plan, options.sequence_length, extra, partial);
  samples_ = IndexArray<int32_t>(
      build_sample_index(file_->lengths(0, file_->sequences()), documents_.view(), n, options.sequence_length, extra));
  shuffle_ = IndexArray<uint32_t>(build_shuffle_index(plan.separate_last ? plan.samples_before_last : n, n, random));
  cache.save("document_index", documents_.view(), 1);
  cache.save("sample_index", samples_.view(), 2);
  cache.save("shuffle_index", shuffle_.view(), 1);
  cache.save_description();
}

std::array<int64_t, 4> GptDataset::position(int64_t i) const {
  require(i >= 0 && i < size(), "gpt dataset: sample is 0 to {}, got {}", size() - 1, i);
  const auto number = static_cast<size_t>(shuffle_.view()[static_cast<size_t>(i)]);
  const auto index = samples_.view();
  // The contents of a cache are checked.
  auto refuse = [&](const char* why) {
    throw UserError("index files do not fit the data", options_.index_cache.empty() ? file_->prefix() : options_.index_cache,
                    why, "remove the index files: they are made again");
  };
  if (2 * number + 3 >= index.size()) refuse("the shuffle index points behind the samples");
  const std::array<int64_t, 4> p{index[2 * number], index[2 * number + 1], index[2 * number + 2], index[2 * number + 3]};
  if (p[0] < 0 || p[0] > p[2] || p[2] >= static_cast<int64_t>(documents_.view().size()) || p[1] < 0 || p[3] < -1)
    refuse("the sample index points outside the documents");
  for (int64_t d = p[0]; d <= p[2]; ++d)
    if (int64_t s = documents_.view()[static_cast<size_t>(d)]; s < range_.begin || s >= range_.end)
      refuse("the document index names a sequence outside the split");
  return p;
}

GptSample GptDataset::sample(int64_t i) const {
  const auto [first, first_token, last, last_token] = position(i);
  const auto S = static_cast<size_t>(options_.sequence_length);
  const size_t extra = options_.extra_token ? 1 : 0;
  std::vector<int32_t> row;
  row.reserve(S + extra);
  for (int64_t d = first; d <= last; ++d) {
    const int64_t sequence = documents_.view()[static_cast<size_t>(d)], have = file_->length(sequence);
    const int64_t from = d == first ? first_token : 0, to = d == last ? last_token + static_cast<int64_t>(extra) : have;
    if (from > to || to > have || row.size() + static_cast<size_t>(to - from) > S + extra)
      throw UserError("index files do not fit the data", file_->prefix(),
                      fmt::format("sample {} takes tokens {} to {} of a sequence of {}", i, from, to, have),
                      "remove the index files: they are made again");
    row.resize(row.size() + static_cast<size_t>(to - from));
    file_->copy(sequence, from, std::span(row).last(static_cast<size_t>(to - from)));
  }
  GptSample s;
  const size_t real = row.size();
  row.resize(S + extra, 0);
  s.tokens.assign(row.begin(), row.begin() + static_cast<ptrdiff_t>(S));
  s.labels.assign(row.begin() + 1, row.end());
  s.labels.resize(S, 0);
  s.loss_mask.assign(S, 1);
  for (size_t c = real > 0 ? real - 1 : 0; c < S; ++c) s.loss_mask[c] = 0;  // labels that are padding
  s.padding = static_cast<int64_t>(real < S ? S - real : 0);
  s.positions.resize(S);
  std::iota(s.positions.begin(), s.positions.end(), 0);
  int32_t begin = 0, restart = 0;
  const bool resets = options_.reset_attention_mask || options_.reset_position_ids || options_.eod_mask_loss;
  for (size_t c = 0; resets && c < real && c < S; ++c) {
    s.positions[c] -= options_.reset_position_ids ? restart : 0;
    if (s.tokens[c] != options_.eod) continue;
    if (options_.eod_mask_loss) s.loss_mask[c] = 0;
    restart = static_cast<int32_t>(c) + 1;
    if (!options_.reset_attention_mask) continue;
    s.segments.push_back({begin, restart - begin});
    begin = restart;
  }
  for (size_t c = real; c < S && options_.reset_position_ids; ++c) s.positions[c] -= restart;
  if (begin < static_cast<int32_t>(S)) s.segments.push_back({begin, static_cast<int32_t>(S) - begin});
  return s;
}

std::vector<uint8_t> hidden_bits(const GptSample& s) {
  const size_t S = s.tokens.size(), width = (S + 7) / 8;
  std::vector<uint8_t> bits(S * width, 0);
  size_t segment = 0;
  for (size_t c = 0; c < S; ++c) {
    while (s.segments[segment].begin + s.segments[segment].length <= static_cast<int64_t>(c)) ++segment;
    for (size_t k = 0; k < S; ++k)
      if (k > c || k < static_cast<size_t>(s.segments[segment].begin))
        bits[c * width + k / 8] |= static_cast<uint8_t>(1u << (k % 8));
  }
  return bits;
}

std::string GptDataset::origin(int64_t i) const {
  const auto p = position(i);
  auto one = [&](int64_t d, int64_t token) {
    return fmt::format("sequence {} token {}", documents_.view()[static_cast<size_t>(d)], token);
  };
  return fmt::format("{} {} to {}", file_->prefix(), one(p[0], p[1]), one(p[2], p[3]));
}

}  // namespace ravine
