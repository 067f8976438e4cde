// `ravine chat`: a conversation with a model, one turn per line.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>

#include "apps/adapters.h"
#include "apps/commands.h"
#include "apps/model_job.h"
#include "apps/named_prompt_models.h"
#include "apps/sampling_flags.h"
#include "apps/turns.h"
#include "base/json.h"
#include "base/log.h"
#include "base/read_text.h"
#include "base/text.h"
#include "engine/make_recipe.h"
#include "files/atomic.h"
#include "infer/answer_text.h"
#include "infer/generator.h"
#include "io/model_folder.h"
#include "text/chat/messages.h"
#include "text/chat/rendered_json.h"

namespace ravine {
namespace {

struct ChatFlags {
  CommonFlags common;
  SamplingFlags sampling;
  std::string model, chat_template, system, modellink;
  std::vector<std::string> adapter;
  template <class V>
  void each(V&& v) {
    v("model", model, "Hugging Face folder", required() & same_as("model.path") & metavar("DIR") & reads_folder());
    v("adapter", adapter, "LoRA adapter of PEFT for this model, or OUTPUT/adapter of a run",
      named() & metavar("[NAME=]DIR") & reads_folder());
    v("system", system, "system message of the conversation", metavar("TEXT") & at_most_bytes(kMostPrompt));
    v("template", chat_template, "chat template, a name such as chatml, or a file of Jinja; empty: the model's own",
      same_as("data.chat_template") & metavar("NAME-or-FILE") & reads() & or_words(template_words()));
    v("modellink", modellink, "use the prompt format of ModelLink's chat task, with LABEL before each answer",
      metavar("LABEL") & detail("q, quit and exit end the conversation; clear and new begin it again."));
    sampling.each(v);
    v.heading("");
    common.each(v);
  }
};

constexpr const char* kChatHelp =
    "a line is a turn; lines that begin with / are commands:\n"
    "  /help         this text\n"
    "  /reset        begin again, with the system's message\n"
    "  /system TEXT  begin again with this message of the system; without TEXT: with none\n"
    "  /save FILE    write the conversation, a JSON list of messages; /save --overwrite FILE replaces a file\n"
    "  /load FILE    go on with one\n"
    "  /quit         end, as the end of input (Ctrl-D) does; Ctrl-C ends an answer, twice at the prompt the program";

// Ctrl-C ends an answer; a second one during the same answer ends the program. At the prompt of a terminal, a second
// one within two seconds ends the program: the first may be meant for an answer.
// Global: a signal handler has no other access.
std::atomic<bool> answering{false}, interrupted{false}, second_interrupt{false};
std::atomic<int64_t> last_interrupt{-1000};  // time of the last Ctrl-C at the prompt, in milliseconds

void end_by_interrupt(bool terminal) {
  constexpr int64_t kTwice = 2000;
  second_interrupt = terminal;
  struct sigaction action {};
  action.sa_handler = [](int) {
    if (answering && !interrupted.exchange(true)) return;
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t at = now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (answering || !second_interrupt || at - last_interrupt.exchange(at) <= kTwice) ::_exit(130);
    constexpr char kInterruptHint[] = "\nCtrl-C once more ends the conversation, /quit does too\n";
    static_cast<void>(!::write(STDERR_FILENO, kInterruptHint, sizeof kInterruptHint - 1));
  };
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
}

class Interruptible {
 public:
  Interruptible() {
    interrupted = false;
    answering = true;
  }
  ~Interruptible() { answering = false; }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
};

// Reads messages in the format of /save, the format of the OpenAI API.
Json read_messages(const std::string& file) {
  try {
    return as_messages(parse_rendered(read_text(file, kMostPrompt, "the conversation"), file, Rendered::all));
  } catch (const MessagesError& e) {
    throw UserError("no conversation", file, e.what(), "correct the file, or name one that /save has written");
  }
}

void save_messages(const std::string& file, const Json& messages, bool overwrite) {
  if (std::error_code error; !overwrite && std::filesystem::exists(file, error))
    throw UserError("the file is there already", file, "nothing is overwritten unasked",
                    "choose another name, or say /save --overwrite FILE");
  write_file_atomic(file, messages.dump(1) + "\n");
}

class ChatSession {
 public:
  // label: the label of an answer, in a conversation in ModelLink's format; "": a conversation in Ravine's.
  ChatSession(const NamedPromptModel& named, ChatPrompt& chat, GenerateOptions options, std::vector<std::string> stops,
              std::string label)
      : prompt_model_(named), chat_(chat), options_(std::move(options)), stops_(std::move(stops)), label_(std::move(label)) {
    if (positions() > 0)
      options_.max_length = options_.max_length > 0 ? std::min(options_.max_length, positions()) : positions();
  }

  // Runs a turn; false if the conversation is over. A wrong turn is a UserError and leaves the conversation unchanged.
  bool turn(const std::string& line) {
    if (line.find_first_not_of(" \t") == std::string::npos) return true;
    if (!label_.empty()) return turn_of_modellink(line);
    if (line[0] != '/') return answer(line), true;
    const size_t end = std::min(line.find_first_of(" \t"), line.size()), rest = line.find_first_not_of(" \t", end);
    const std::string word = line.substr(0, end);
    std::string text = rest == std::string::npos ? "" : line.substr(rest);
    text.erase(text.find_last_not_of(" \t") + 1);
    return obey(word, text);
  }

 private:
  int64_t positions() const { return prompt_model_.loaded->model->facts().max_positions; }

  bool turn_of_modellink(const std::string& line) {
    const size_t first = line.find_first_not_of(" \t");
    const std::string word = line.substr(first, line.find_last_not_of(" \t") + 1 - first);
    if (word == "q" || word == "quit" || word == "exit") return false;
    if (word == "clear" || word == "new")
      chat_.begin_again();
    else
      answer(line);
    return true;
  }

  bool obey(const std::string& word, const std::string& text) {
    auto file = [&](const std::string& named) {
      if (named.empty())
        throw UserError(word + " without a file", "the conversation", "this command needs the name of a file", "add it");
      return with_home(named).value_or(named);
    };
    constexpr std::string_view kOverwrite = "--overwrite";
    const size_t end = std::min(text.find_first_of(" \t"), text.size()), rest = text.find_first_not_of(" \t", end);
    const bool overwrite = text.substr(0, end) == kOverwrite;
    if (word == "/quit" || word == "/exit") return false;
    if (word == "/help")
      print_stderr(kChatHelp);
    else if (word == "/reset")
      chat_.begin_again();
    else if (word == "/system")
      chat_.set_system(text);
    else if (word == "/save")
      save_messages(file(!overwrite ? text : rest == std::string::npos ? "" : text.substr(rest)), chat_.messages(), overwrite);
    else if (word == "/load")
      chat_.set_messages(read_messages(file(text)));
    else
      throw UserError(fmt::format("no command '{}'", word.substr(0, 80)), "the conversation",
                      "the commands are /help, /reset, /system TEXT, /save FILE, /load FILE and /quit",
                      "put a blank before a turn that begins with /");
    return true;
  }

  // Returns the ids of the conversation with this question. If the model has too few positions, the oldest turns are
  // left out.
  std::vector<int32_t> prompt_of(const std::string& question) {
    std::vector<int32_t> prompt = chat_.add_question(question);
    if (positions() == 0) return prompt;
    // Least number of tokens for an answer.
    const int64_t room = std::min(options_.max_new_tokens, std::max<int64_t>(1, positions() / 4));
    int64_t left_out = 0;
    for (; static_cast<int64_t>(prompt.size()) + room > positions() && chat_.forget_oldest(); ++left_out)
      prompt = chat_.ids_of(chat_.messages());
    if (left_out > 0)
      print_stderr(fmt::format("note: the conversation is longer than the model's {} positions: its {} are left out",
                               positions(), left_out == 1 ? "oldest turn" : fmt::format("oldest {} turns", left_out)));
    return prompt;
  }

  void answer(const std::string& question) {
    const Json before = chat_.messages();
    try {
      const std::vector<int32_t> prompt = prompt_of(question);
      check_prompts({prompt}, prompt_model_.loaded->model->facts(), options_, "the conversation");
      chat_.answered(print_answer(prompt));
    } catch (const Error&) {
      chat_.set_messages(before);
      throw;
    }
    ++options_.seed;  // other random numbers in the next turn
  }

  std::string print_answer(const std::vector<int32_t>& prompt) {
    AnswerText text(*prompt_model_.tokenizer, prompt, stops_);
    std::string all;
    auto show = [&](const std::string& piece) {
      all += piece;
      const std::string shown = terminal_ ? escaped(piece, "\n\t") : piece;
      std::fwrite(shown.data(), 1, shown.size(), stdout);
      std::fflush(stdout);
    };
    if (!label_.empty()) fmt::print("\n{}:\n\n", label_);
    {
      const Interruptible scope;
      GenerateEvents events;
      events.stop = [] { return interrupted.load(); };
      events.token = [&](size_t, int32_t id) { return show(text.next(id)), !text.stopped(); };
      generate(*prompt_model_.loaded, {prompt}, options_, events, "the conversation");
    }
    show(text.finish());
    std::fputc('\n', stdout);
    std::fflush(stdout);
    return all;
  }

  const NamedPromptModel& prompt_model_;
  ChatPrompt& chat_;
  GenerateOptions options_;
  std::vector<std::string> stops_;
  std::string label_;
  bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
};

int run_chat(ChatFlags& flags, Config& config) {
  end_by_interrupt(::isatty(STDIN_FILENO) == 1);
  const ResolvedAdapters resolved = resolve_model_and_adapters(config.model.path, flags.adapter);
  one_adapter(resolved, "chat");
  config.model.path = flags.model = resolved.model;
  check_model_folder(config.model.path, "--model");
  NamedPromptModels named_models(config.model, resolved.adapters, flags.chat_template, {true, flags.system});
  const size_t of = named_models.only();
  ChatPrompt& chat = named_models.chat(of);
  const LoadedModel loaded = open_model_job(nullptr, config.model.path, config, flags.common.backend, OpenFor::running,
                                            describe(flags), named_models[0].adapter);
  named_models.open(loaded);
  const NamedPromptModel& named = named_models[of];
  SamplingFlags sampling = flags.sampling;
  sampling.sample = sampling.sample || (named.defaults.sample && sampling.temperature != std::vector<double>{0});
  GenerateOptions options = sampling_options(sampling, named.loaded->model->facts(), named.defaults, 0);
  add_stop_tokens(sampling, named.tokenizer.get(), options);
  end_with_template(options, named);
  const Recipe recipe = make_recipe(config.precision, loaded.kernels);
  options.recipe = &recipe;
  Log log;
  for (const std::string& field : named.defaults.not_offered)
    log.warn("'{}' of generation_config.json is not offered and has no effect", field);
  if (const std::string draws = given_for_draws(sampling); !options.sample && !draws.empty() && sampling.temperature.empty())
    log.warn("without --sample there is no effect of {}", draws);

  Turns turns("You >> ");
  if (turns.terminal() && flags.modellink.empty())
    print_stderr("each line is a turn; /help tells more, /quit or Ctrl-D ends the conversation");
  ChatSession session(named, chat, std::move(options), stop_texts(sampling, named.defaults), flags.modellink);
  for (bool on = true; on;) {
    try {
      const std::optional<std::string> line = turns.next();
      on = line && session.turn(*line);
    } catch (const Stopped&) {
      throw;
    } catch (const Error& e) {  // the conversation continues
      if (std::ferror(stdin)) throw;
      print_stderr(escaped(fmt::format("error: {}", e.what())));
    }
  }
  return 0;
}

}  // namespace

Command chat_command() {
  return command<ChatFlags>(
      {.name = "chat",
       .summary = "talk with a model: each line is a turn",
       .example = "ravine chat --model my-llama-chat --system \"Be brief.\"",
       .about =
           "Each line is a turn; lines that begin with / are commands (/help lists them). The model needs a chat template, or --template.",
       .sections = {"model.path", "model.tokenizer", "lora.base", "data.chat_template", "precision.compute",
                    "precision.bf16_products", "precision.recipes", "precision.unfused"},
       .alone = true},
      "Run", run_chat);
}

}  // namespace ravine
