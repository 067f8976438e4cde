// `ravine init`: makes a folder with a commented run.yaml that trains as it is. Its data and model are the user's, or
// generated: the manual of Ravine as text, its options as questions and answers, a small Llama model. For adapters the
// model gets a folder.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <unordered_set>

#include "apps/commands.h"
#include "apps/init_data.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/program_name.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "data/instruct/chat_set.h"
#include "data/source.h"
#include "data/source_texts.h"
#include "files/atomic.h"
#include "files/file_set.h"
#include "files/temporary.h"
#include "files/tokenizer_files.h"
#include "io/huggingface.h"
#include "io/model_folder.h"
#include "io/open_weights.h"
#include "parallel/flat_store.h"
#include "parallel/initialise.h"
#include "runs/open.h"
#include "runs/run_paths.h"
#include "runs/vocabulary.h"
#include "text/chat/chat_template.h"
#include "text/chat/prompt_templates.h"
#include "text/tokenizers/open_tokenizer.h"
#include "text/tokenizers/sentencepiece_json.h"
#include "text/training/trainer.h"
#include "text/unicode/utf8.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

struct InitFlags {
  std::vector<std::string> words;
  std::string text, model, text_key = DataOptions{}.text_key;
  template <class V>
  void each(V&& v) {
    v("folder", words, "kind of run (pretrain, sft, lora or dpo; default: pretrain), and the folder to make",
      positional() & required() & filled() & writes() & metavar("[KIND] DIR"));
    v("data", text, "file or folder of your own data; default: the manual of Ravine",
      reads() & metavar("FILE") &
          detail(
              "For pretrain: text. For sft and lora: instructions as Alpaca, ShareGPT or messages. For dpo: pairs of chosen and rejected answers."));
    v("text-key", text_key, "key or column of --data that holds the text", filled());
    v("model", model, "Hugging Face folder of the model to train; default: a new small Llama", reads_folder() & metavar("DIR"));
  }
};

// The contents of run.yaml for a kind of run, apart from the places of model and data.
struct InitKind {
  const char* name;
  const char* title;
  const char* data;      // lines of section data after data.train: {0} the chat template, {1} the length
  int64_t length;        // sequence length, if the model has as many positions
  const char* rate;      // learning rate for an existing model
  const char* new_rate;  // learning rate for the generated small model, which memorises its data
  InitData takes;
  bool stored = false;        // the run starts from an existing model: one is generated
  const char* sections = "";  // lines of further sections
  const char* train = "";     // lines of section train
  const char* result = "model";
  const char* from_nothing = "";  // further lines of its section, if the generated model starts from random weights
};

constexpr const char* kChatData =
    "  sequence_length: {1:<6} # tokens of a sequence; longer conversations are cut (data.too_long)\n"
    "  chat_template: {0}   # how a conversation becomes text; empty: the template of the model's tokenizer\n"
    "  loss_on: answers        # or last, or all\n";

constexpr InitKind kKinds[] = {
    {"pretrain", "Pretraining on text",
     "  sequence_length: {1:<6} # tokens of a sequence; the model's max_position_embeddings is the limit\n"
     "  valid_fraction: 0.05    # part of the text held out, to see how well it goes on with what it has not seen\n",
     128, "1.0e-3", "3.0e-3", InitData::text},
    {"sft", "Fine-tuning on instructions", kChatData, 256, "3.0e-4", "3.0e-3", InitData::conversations},
    {"lora", "Adapters beside a model, trained on instructions", kChatData, 256, "5.0e-4", "5.0e-3", InitData::conversations,
     true,
     "lora:\n"
     "  rank: 8                 # width of an adapter\n"
     "  alpha: 16               # what it computes is added alpha/rank times\n"
     "  targets: all-linear     # or names of modules: [q_proj, v_proj]\n"
     "  dropout: 0.05\n"
     "  merge: false            # true: a whole model with the adapter in it, instead of the adapter alone\n"
     "  # base: nf4             # the frozen weights in 4 bits, as QLoRA keeps them\n",
     "", "adapter"},
    {"dpo", "Learning from pairs of answers (direct preference optimisation)",
     "  sequence_length: {1:<6} # tokens; both answers of a pair lie in it, each with its prompt\n"
     "  chat_template: {0}   # how a conversation becomes text; empty: the template of the model's tokenizer\n",
     256, "5.0e-5", "3.0e-3", InitData::pairs, true,
     "# lora: {rank: 8}         # trains an adapter instead of all weights\n"
     "dpo:\n"
     "  beta: 0.1               # how strongly the model is held to the reference\n"
     "  loss: sigmoid           # or hinge, ipo\n"
     "  # reference: my-llama   # the model to compare with; without it: the model as the run begins\n",
     "  objective: dpo\n", "model",
     "  ftx: 1.0                # chosen answers are learned as well, since random weights can say nothing; else 0\n"},
};

constexpr double kSpread = 0.02;  // standard deviation of weights that are initialised for training
// Standard deviation of weights that stay frozen: adapters can then reach any answer.
constexpr double kWideSpread = 0.12;

Json small_llama(int64_t vocabulary, double spread) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 128},
          {"intermediate_size", 352},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"hidden_act", "silu"},
          {"vocab_size", vocabulary},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"initializer_range", spread},
          {"tie_word_embeddings", true},
          {"bos_token_id", 1},
          {"eos_token_id", 2},
          {"torch_dtype", "float32"}};
}

// Tokens of the template chatml.
const std::vector<std::string> kChatTokens = {"<|im_start|>", "<|im_end|>"};

// The journal in the new folder, in which all files wait for their names.
constexpr const char* kInitJournal = "init.replacing";

FileSetKind init_set() {
  return {
      "run of init", {"run.yaml", "manual.txt", "instructions.json", "preferences.json", "model.json"}, {"tokenizer", "base"}};
}

// Facts of the base model for run.yaml.
struct BaseModel {
  int64_t positions = INT64_MAX;
  std::string chat_template = "chatml";
};

// Returns the vocabulary size for a small model: one token per character, bytes, special tokens and 512 for words.
int64_t vocabulary_for(TrainingText& text) {
  constexpr int64_t kLeast = 1024, kBytes = 256, kWords = 512;
  std::unordered_set<char32_t> characters;
  for (std::string document; text.next(document);)
    for (std::string_view rest = document; !rest.empty();) {
      const int length = utf8_head(rest);
      if (length > 1) characters.insert(utf8_value(rest, length));
      rest.remove_prefix(static_cast<size_t>(std::max(length, 1)));
    }
  return std::max(kLeast, kBytes + kWords + static_cast<int64_t>(characters.size()));
}

// Saves a model folder with the initial weights of a run.
void save_new_model(const Json& shape, const std::string& tokenizer, const std::string& dir) {
  const auto model = make_model(shape, dir);
  FlatStore store(model->params(), Types::of(DType::f32), DeviceKind::cpu);
  initialise(store, TrainOptions{}.seed);
  save_model_folder({.dir = dir,
                     .tokenizer = tokenizer,
                     .missing_tokenizer_files = missing_tokenizer_files,
                     .chat_template = prompt_template(BaseModel{}.chat_template)},
                    *model, store);
}

std::string yaml_quoted(const std::string& path) { return Json(path).dump(); }  // a JSON string is valid YAML

// True if init may write there: the folder is missing, empty, or has only leftovers of a killed init.
bool is_free(const fs::path& dir) {
  if (!fs::exists(dir)) return true;
  if (!fs::is_directory(dir)) return false;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const auto name = parse_temporary(entry.path().filename().string());
    if (!name || name->target != kInitJournal || is_in_use(entry.path().string())) return false;
  }
  return true;
}

const InitKind& kind_of(const InitFlags& flags, std::string& folder) {
  const std::string name = flags.words.size() > 1 ? flags.words[0] : "pretrain";
  folder = flags.words.back();
  std::vector<std::string> names;
  for (const InitKind& k : kKinds) {
    names.emplace_back(k.name);
    if (k.name == name && flags.words.size() <= 2) return k;
  }
  if (flags.words.size() > 2)
    throw UserError(counted(flags.words.size(), "name"), "init", "it takes at most a kind and a folder",
                    "for example: ravine init pretrain first");
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  std::string fix = did_you_mean(lower, names, "choose one of them");
  if (std::find(names.begin(), names.end(), folder) != names.end())
    fix = fmt::format("the kind stands first: ravine init {} {}", folder, shell_word(name));
  else if (lower == "preference" || lower == "preferences" || lower == "rlhf" || lower == "orpo")
    fix = "did you mean 'dpo'?";
  else if (lower == "finetune" || lower == "fine-tune" || lower == "instruct" || lower == "chat")
    fix = "did you mean 'sft'?";
  else if (lower == "peft" || lower == "qlora" || lower == "adapter")
    fix = "did you mean 'lora'?";
  throw UserError(fmt::format("no kind of run '{}'", name), "init", "it must be pretrain, sft, lora or dpo", fix);
}

// Returns a path that is valid from every folder.
std::string absolute_path(const std::string& path) {
  return path.empty() ? "" : fs::absolute(path).lexically_normal().string();
}

BaseModel look_at_model(const std::string& folder, bool sft) {
  check_model_folder(folder, "--model");
  const ModelFacts facts = open_model(folder)->facts();
  open_weights(folder);
  if (!has_tokenizer(folder))
    throw UserError("the model has no tokenizer", "--model=" + folder, "text and conversations need one",
                    "copy the model's tokenizer.json, or tokenizer.model, into the folder");
  const auto tokenizer = open_tokenizer(folder);
  if (const std::string problem = vocabulary_problem(tokenizer->size(), facts.vocabulary); !problem.empty())
    throw UserError(problem, "--model=" + folder, "every id must have a row in the embedding",
                    "copy the tokenizer that belongs to this model into the folder");
  BaseModel base;
  if (facts.max_positions > 0) base.positions = facts.max_positions;
  if (sft && load_chat_template(folder)) base.chat_template = "\"\"";
  return base;
}

bool holds_conversations(const std::string& file, const std::string& text_key) {
  try {
    return source_kind(file) != SourceKind::text && detect_chat_file(file, text_key).has_value();
  } catch (const UserError&) {
    return false;
  }
}

// Throws UserError if the folder is not free, or if a name that goes into run.yaml is no text.
void check_names(const InitFlags& flags, const std::string& folder) {
  const fs::path dir = folder;
  if (fs::exists(dir) && !fs::is_directory(dir))
    throw UserError("a file has this name", folder, "init makes a folder of this name",
                    fmt::format("a text to train on is given as --data: ravine init {}first --data {}",
                                holds_conversations(folder, flags.text_key) ? "sft " : "", shell_word(folder)));
  if (!is_free(dir))
    throw UserError("the folder is not empty", folder, "init writes into a new or empty folder only", "choose another name");
  for (const auto& [flag, path] : {std::pair{"--data", flags.text}, {"--model", flags.model}})
    if (escaped(path) != path)
      throw UserError(fmt::format("the name '{}'", escaped(path)), flag,
                      "run.yaml names it, and a text has neither control characters nor bytes that are not UTF-8",
                      "give it another name");
}

// A folder that is made if it is missing; unless something is put into it, it is removed with this object.
class MadeFolder {
 public:
  explicit MadeFolder(const fs::path& p) {
    std::error_code error;
    if (!fs::exists(p, error)) made_ = p;
    create_folders(p.string());
  }
  ~MadeFolder() {
    std::error_code error;
    if (!made_.empty()) fs::remove(made_, error);  // only if it is empty
  }

 private:
  fs::path made_;
};

// The files of the folder that init makes, first written into `building`. `names`: files and folders made so far.
struct NewFiles {
  const InitFlags& flags;
  const InitKind& kind;
  const std::vector<Command>& commands;
  fs::path dir, building;
  std::vector<std::string> names;

  bool chats() const { return kind.takes != InitData::text; }
  void make(const char* name, const std::string& text) {
    write_file_atomic((building / name).string(), text);
    names.emplace_back(name);
  }
};

// Trains a tokenizer on the data and makes the shape, or for kind.stored the weights, of a small new model. Returns the
// section `model` of run.yaml; sets base.chat_template of a stored model. data: the file to train on.
std::string make_model(NewFiles& f, const std::string& data, BaseModel& base) {
  const InitFlags& flags = f.flags;
  const InitKind& kind = f.kind;
  const bool chats = f.chats();
  const fs::path &dir = f.dir, &building = f.building;
  TokenizerTraining training;
  std::string learned = flags.text.empty() ? (building / "manual.txt").string() : data;
  if (chats) {
    learned = (building / "words.txt").string();
    write_file_atomic(learned, flags.text.empty() ? manual_text(f.commands) : init_words(data, kind.takes));
    training.special = kChatTokens;
    training.add_dummy_prefix = false;  // no extra blank after a token of the template
  }
  training.output = (building / "tokenizer").string();
  SourceTexts counted_text({learned}, flags.text_key);
  training.vocabulary = vocabulary_for(counted_text);
  SourceTexts text({learned}, flags.text_key);
  const TrainedTokenizer tokenizer = train_tokenizer(training, text);
  if (std::error_code error; chats) fs::remove(learned, error);
  const Json shape = small_llama(tokenizer.vocabulary, std::string_view(kind.result) == "adapter" ? kWideSpread : kSpread);
  if (kind.stored) {
    save_new_model(shape, training.output, (building / "base").string());
    std::error_code error;
    fs::remove_all(training.output, error);
    f.names.emplace_back("base");
    base.chat_template = "\"\"";
    return fmt::format(
        "model:\n"
        "  path: {}    # {}; here random weights, so that this runs: name a folder of use\n",
        yaml_quoted(absolute_path((dir / "base").string())),
        kind.takes == InitData::pairs ? "what learns, and what it is compared with" : "what the adapter stands beside");
  } else {
    f.names.emplace_back("tokenizer");
    f.make("model.json", shape.dump(1) + "\n");
    return fmt::format(
        "model:\n"
        "  config: {}       # the shape of a new model, weights from train.seed; or, to go on from a model:\n"
        "  tokenizer: {}\n"
        "  # path: my-llama          # Hugging Face folder with config, weights, tokenizer (instead of both)\n",
        yaml_quoted(absolute_path((dir / "model.json").string())), yaml_quoted(absolute_path((dir / "tokenizer").string())));
  }
}

// Returns the text of run.yaml. model: its section `model`. data: the file to train on.
std::string run_yaml(const NewFiles& f, const std::string& model, const std::string& data, const BaseModel& base) {
  const InitFlags& flags = f.flags;
  const InitKind& kind = f.kind;
  const fs::path& dir = f.dir;
  return fmt::format(
      "# {0}. To run it:            ravine train --config {1}\n"
      "# What it needs and takes:   ravine plan --config {1}\n"
      "# Ctrl-C saves and stops; the same command goes on. Every option: ravine config --list; about one: ravine config --explain train.steps\n"
      "# Paths are whole here, so that the command is the same in every folder; a path like ./data would be one of the folder where it is typed.\n"
      "{2}"
      "data:\n"
      "  train: [{3}]    # more files, or {{path: FILE, weight: 2}}, by comma\n"
      "{4}{8}{9}"
      "train:\n"
      "{11}"
      "  output: {5}     # everything the run writes; {10}/ in it is the result\n"
      "  steps: 200\n"
      "  global_batch: 8         # sequences of a step\n"
      "  micro_batch: 4          # of them at a time: the larger, the faster and the more memory\n"
      "  {6}valid_every: 50\n"
      "optimizer:\n"
      "  lr: {7}             # the highest rate{12}\n"
      "  weight_decay: 0.1\n"
      "  clip_norm: 1.0\n"
      "schedule:\n"
      "  type: cosine\n"
      "  warmup_steps: 20\n"
      "  min_lr_ratio: 0.1\n"
      "checkpoint:\n"
      "  every: 100              # steps; 0: only when stopped\n"
      "  keep: 2\n"
      "log:\n"
      "  every: 10\n",
      kind.title, shell_word((dir / "run.yaml").string()), model, yaml_quoted(data),
      fmt::format(fmt::runtime(kind.data), base.chat_template, std::min(kind.length, base.positions)),
      yaml_quoted(absolute_path((dir / "run").string())), f.chats() ? "# " : "",
      flags.model.empty() ? kind.new_rate : kind.rate,
      flags.text_key == DataOptions{}.text_key
          ? ""
          : fmt::format("  text_key: {}    # key or column that holds the text\n", yaml_quoted(flags.text_key)),
      kind.sections + std::string(flags.model.empty() ? kind.from_nothing : ""), kind.result, kind.train,
      flags.model.empty() ? ", for this small model; a large one takes a tenth of it, or less" : "");
}

int run_init(InitFlags& flags, const std::vector<Command>& commands) {
  std::string folder;
  const InitKind& kind = kind_of(flags, folder);
  for (const InitKind& k : kKinds)
    if (flags.words.size() == 1 && folder == k.name)
      throw UserError("no folder", "init", "the folder to make follows the kind", fmt::format("ravine init {} first", k.name));
  if (escaped(folder) != folder)
    throw UserError(fmt::format("the name '{}'", escaped(folder)), "init", "a folder's name has no control characters here",
                    "choose another name");
  const fs::path dir = folder;
  auto print_ready = [&] {
    fmt::print("{0} is ready; look at it, then\n  {2} train --config {1}\n", (dir / "run.yaml").string(),
               shell_word((dir / "run.yaml").string()), program_word());
  };
  if (finish_file_set((dir / kInitJournal).string(), init_set())) {
    print_ready();
    return 0;
  }
  check_names(flags, folder);
  const bool chats = kind.takes != InitData::text;
  if (!flags.model.empty()) flags.model = resolve_model(flags.model, "--model");
  std::string data = absolute_path(flags.text);
  if (!data.empty()) check_init_data(flags.text, {kind.takes, kind.name, folder, flags.text_key, flags.model});
  if (chats && flags.text_key != DataOptions{}.text_key)
    print_stderr(
        fmt::format("note: --text-key={} has no effect: conversations have keys of their own", escaped(flags.text_key)));
  BaseModel base = flags.model.empty() ? BaseModel{} : look_at_model(flags.model, chats);
  const MadeFolder made(dir);
  FileSet set((dir / kInitJournal).string(), init_set());
  NewFiles files{flags, kind, commands, dir, set.folder(), {}};
  if (data.empty()) {
    const char* name = kind.takes == InitData::pairs ? "preferences.json" : chats ? "instructions.json" : "manual.txt";
    data = absolute_path((dir / name).string());
    files.make(name, chats ? manual_records(commands, kind.takes) : manual_text(commands));
  }
  const std::string model = flags.model.empty()
                                ? make_model(files, data, base)
                                : fmt::format("model:\n  path: {}    # Hugging Face folder: config, weights, tokenizer\n",
                                              yaml_quoted(absolute_path(flags.model)));
  files.make("run.yaml", run_yaml(files, model, data, base));
  set.commit(files.names, false);
  print_ready();
  return 0;
}

}  // namespace

Command init_command(const std::vector<Command>& others) {
  return command_on_table<InitFlags>(
      {.name = "init",
       .summary = "make a folder with a commented run.yaml that trains as it is",
       .example = "ravine init pretrain first && ravine train --config first/run.yaml",
       .about =
           "Writes a folder with a commented run.yaml, data and a model's config. `ravine train --config FOLDER/run.yaml` trains at once.",
       .sections = {},
       .alone = true},
      "Train", others, run_init);
}

}  // namespace ravine
