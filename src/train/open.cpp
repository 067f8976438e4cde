#include "train/open.h"

#include "io/huggingface.h"

namespace ravine {

std::unique_ptr<Model> open_run_model(const Config& c) {
  if (c.model.path.empty() == c.model.config.empty())
    throw UserError("no model, or two", "model.path, model.config", "exactly one of them must be given",
                    "set model.path=FOLDER to go on from weights, or model.config=FILE.json to start from random ones");
  std::unique_ptr<Model> model = open_model(c.model.path.empty() ? c.model.config : c.model.path);
  std::vector<ParamRule> rules;
  for (const std::string& f : c.train.freeze) rules.push_back({f, 1, 1, true});
  for (const ParamGroup& g : c.optimizer.groups) rules.push_back({g.match, g.lr_mult, g.wd_mult, false});
  apply_rules(model->params(), rules);
  return model;
}

Sources open_sources(const Config& c, const ModelFacts& facts, std::function<void(const TokenizeProgress&)> progress) {
  Sources s;
  DatasetOptions data = dataset_options(c, facts.vocabulary);
  data.progress = std::move(progress);
  std::string where = c.model.tokenizer.empty() ? c.model.path : c.model.tokenizer;
  if (needs_tokenizer(data)) {
    if (where.empty())
      throw UserError("no tokenizer", "model.tokenizer", "text data needs one", "set model.tokenizer to a tokenizer.model or its folder");
    s.tokenizer = open_tokenizer(where);
    if (s.tokenizer->size() > facts.vocabulary)
      throw UserError(fmt::format("the tokenizer has {} ids, the model a vocabulary of {}", s.tokenizer->size(), facts.vocabulary), where,
                      "every id must have a row in the embedding", "use the tokenizer of this model, or a config with a larger vocab_size");
  }
  if (facts.max_positions > 0 && c.data.sequence_length > facts.max_positions)
    throw UserError(fmt::format("data.sequence_length is {}", c.data.sequence_length), "data.sequence_length",
                    fmt::format("the model has max_position_embeddings = {}", facts.max_positions), "shorten the sequences or change the model's config");
  s.data = open_datasets(data, s.tokenizer.get());
  return s;
}

TrainState state_of(StepEngine& engine) {
  TrainState s;
  ResidentStore& store = engine.store();
  std::vector<Optimizer::Moment> moments = engine.optimizer().moments();
  for (size_t b = 0; b < store.buckets().size(); ++b) {
    const Bucket& bucket = store.buckets()[b];
    auto add = [&](const std::string& kind, const TensorView& flat) {
      if (flat.absent()) return;
      for (const Bucket::Span& span : bucket.spans) {
        const Param& p = *span.param;
        TensorView v = view_of(flat.as<char>() + span.begin * size_of(flat.dtype), flat.dtype, p.shape);
        s.tensors.push_back({kind + "/" + p.name, v, p.shape, std::vector<int64_t>(static_cast<size_t>(p.shape.rank()), 0), bucket.unit->index});
      }
    };
    add("weights", store.flat_master(b));
    for (const Optimizer::Moment& m : moments) add(m.name, m.buckets[b]);
  }
  s.scalars["optimizer_steps"] = engine.optimizer().steps();
  return s;
}

int64_t checkpoint_scalar(const CheckpointReader& reader, const std::string& key) {
  const Json& s = reader.scalars();
  if (!s.contains(key) || !s[key].is_number_integer())
    throw UserError("checkpoint lacks '" + key + "'", fmt::format("checkpoint of step {}", reader.step()), "it must be a training checkpoint", "choose another one");
  return s[key].get<int64_t>();
}

void restore(StepEngine& engine, const CheckpointReader& reader) {
  for (const StateTensor& t : state_of(engine).tensors) reader.read(t.name, t.view, t.global, t.begin);
  engine.optimizer().set_steps(checkpoint_scalar(reader, "optimizer_steps"));
  engine.store().refresh_copies(engine.ctx());
}

void begin_weights(StepEngine& engine, const Config& c) {
  if (!c.model.path.empty())
    load_weights(c.model.path, engine.model(), engine.store());
  else
    initialise(engine.model().params(), engine.store(), static_cast<uint64_t>(c.train.seed));
  engine.store().refresh_copies(engine.ctx());
}

}  // namespace ravine
