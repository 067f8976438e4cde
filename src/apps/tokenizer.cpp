#include "text/tokenizers/open_tokenizer.h"

#include <unistd.h>

#include <cstdio>

#include "apps/commands.h"
#include "base/byte_order_mark.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/narrow_option.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "data/instruct/conversation.h"
#include "data/source.h"
#include "data/source_texts.h"
#include "device/device.h"
#include "files/atomic.h"
#include "files/compressed.h"
#include "files/npy.h"
#include "text/chat/call_arguments.h"
#include "text/chat/chat_template.h"
#include "text/chat/prompt_templates.h"
#include "text/chat/rendered_json.h"
#include "text/training/trainer.h"

namespace ravine {
namespace {

class Stdin final : public ByteSource {
 public:
  size_t read(std::span<std::byte> into) override { return std::fread(into.data(), 1, into.size(), stdin); }
};

void print_line(const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size() || std::fputc('\n', stdout) == EOF)
    fail("tokenizer: stdout cannot be written");
}

std::string list_text(const std::vector<int32_t>& ids) { return fmt::format("[{}]", fmt::join(ids, ",")); }

// Calls f(line, "stdin:N") for each line of stdin; a byte order mark of the first line is removed.
void each_line(const std::function<void(std::string_view, const std::string&)>& f) {
  LineReader lines(std::make_unique<Stdin>(), "stdin");
  while (auto line = lines.next())
    f(lines.line_number() == 1 ? without_byte_order_mark(*line) : *line, fmt::format("stdin:{}", lines.line_number()));
  if (std::fflush(stdout) != 0) fail("tokenizer: stdout cannot be written");
}

struct EncodeFlags {
  std::string tokenizer, npy;
  bool no_special = false, jsonl = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    v("tokenizer", tokenizer, "folder, tokenizer.json, or tokenizer.model (raw SentencePiece)",
      required() & reads_folder() & metavar("DIR-or-FILE"));
    v("no-special", no_special, "add no special tokens to the text (no bos, no eos)");
    v("jsonl", jsonl, "lines are {\"text\": \"..\"} in, {\"ids\": [..]} out");
    v("npy", npy, "encode all of stdin as one text and write the ids as int32 to this file",
      filled() & metavar("FILE") & writes());
    v("overwrite", overwrite, "replace an existing file of that name");
  }
};

int run_encode(EncodeFlags& flags, Config&) {
  auto tokenizer = open_tokenizer(flags.tokenizer);
  if (!flags.npy.empty()) {
    if (flags.jsonl) throw UserError("--npy and --jsonl", "command line", "only one of them at a time", "remove one");
    refuse_existing_file(flags.npy, flags.overwrite);
    std::string text;
    Stdin in;
    // The text is encoded as a whole. Its ids and the tokenizer's memory are needed too, and twice the text while it
    // grows.
    const int64_t room = available_memory() / 16;
    for (size_t had = 0; !std::feof(stdin) && !std::ferror(stdin); text.resize(had)) {
      if (static_cast<int64_t>(had) > room)
        throw UserError("text too long", "stdin",
                        fmt::format("--npy encodes stdin as one text of at most {} (free memory: {}), and stdin has more",
                                    human_bytes(static_cast<double>(room)), human_bytes(16.0 * static_cast<double>(room))),
                        "encode it line by line without --npy, or make token files with ravine preprocess");
      text.resize(had + (1 << 20));
      had += in.read(std::as_writable_bytes(std::span(text).subspan(had)));
    }
    drop_byte_order_mark(text);
    auto ids = tokenizer->encode(text, !flags.no_special);
    write_npy(flags.npy, DType::i32, {static_cast<int64_t>(ids.size())}, std::as_bytes(std::span(ids)),
              may_overwrite(flags.overwrite));
    return 0;
  }
  JsonlParser parser("text", "");
  if (::isatty(STDIN_FILENO) == 1) print_stderr("note: each line that you type is a text; Ctrl-D ends");
  each_line([&](std::string_view line, const std::string& where) {
    if (!flags.jsonl) return print_line(list_text(tokenizer->encode(line, !flags.no_special)));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    print_line("{\"ids\":" + list_text(tokenizer->encode(parser.parse(line, where), !flags.no_special)) + "}");
  });
  return 0;
}

struct DecodeFlags {
  std::string tokenizer;
  bool skip_special = false, jsonl = false;
  template <class V>
  void each(V&& v) {
    v("tokenizer", tokenizer, "folder, tokenizer.json, or tokenizer.model (raw SentencePiece)",
      required() & reads() & metavar("DIR-or-FILE"));
    v("skip-special", skip_special, "leave special tokens out");
    v("jsonl", jsonl, "lines are {\"ids\": [..]} in, {\"text\": \"..\"} out");
  }
};

int run_decode(DecodeFlags& flags, Config&) {
  auto tokenizer = open_tokenizer(flags.tokenizer);
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  each_line([&](std::string_view line, const std::string& where) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    if (!flags.jsonl && line.find_first_not_of("\"' ,0123456789\r\t") == std::string_view::npos)
      throw UserError("ids without brackets", where, "each line must be a list [1, 2, ..]",
                      "write it so: echo '[1, 2, 3]' | ravine tokenizer decode --tokenizer " + shell_word(flags.tokenizer));
    if (line[line.find_first_not_of(" \t\r")] != (flags.jsonl ? '{' : '['))
      throw UserError("no token ids", where,
                      flags.jsonl ? "each line must be {\"ids\": [1, 2, ..]}" : "each line must be a list [1, 2, ..]",
                      "text becomes ids by ravine tokenizer encode --tokenizer " + shell_word(flags.tokenizer));
    Json list = parse_json(line, where);
    if (flags.jsonl) list = list.is_object() && list.contains("ids") ? Json(list["ids"]) : Json();
    std::vector<int32_t> ids;
    bool good = list.is_array();
    for (size_t i = 0; good && i < list.size(); ++i) {
      good = list[i].is_number_integer() && list[i] >= INT32_MIN && list[i] <= INT32_MAX;
      if (good) ids.push_back(list[i].get<int32_t>());
    }
    if (!good)
      throw UserError("no token ids", where,
                      flags.jsonl ? "each line must be {\"ids\": [1, 2, ..]}" : "each line must be a list [1, 2, ..]",
                      "correct the input");
    if (const auto beyond = std::erase_if(ids, [&](int32_t id) { return id >= tokenizer->size(); }); beyond > 0)
      print_stderr(
          fmt::format("warning: {}: {} beyond the {} of the tokenizer: rows of a model that stand for no token make no text",
                      where, beyond == 1 ? "an id is" : fmt::format("{} ids are", beyond), tokenizer->size()));
    std::string text = tokenizer->decode(ids, flags.skip_special);
    // JSON in ASCII: U+2028 in a text would end a line in some readers. Files and pipes get the text unchanged.
    print_line(flags.jsonl ? Json{{"text", text}}.dump(-1, ' ', true, Json::error_handler_t::replace)
               : terminal  ? escaped(text, "\n\t")
                           : text);
  });
  return 0;
}

struct TokenizerInfoFlags {
  std::string tokenizer;
  bool json = false;
  template <class V>
  void each(V&& v) {
    v("tokenizer", tokenizer, "folder, tokenizer.json, or tokenizer.model (raw SentencePiece)",
      required() & reads() & metavar("DIR-or-FILE"));
    v("json", json, "print one JSON line");
  }
};

int run_tokenizer_info(TokenizerInfoFlags& flags, Config&) {
  auto tokenizer = open_tokenizer(flags.tokenizer);
  const SpecialTokens& s = tokenizer->special();
  Json info{{"kind", tokenizer->kind()}, {"size", tokenizer->size()}};
  for (auto [name, id] : {std::pair("bos", s.bos), std::pair("eos", s.eos), std::pair("pad", s.pad), std::pair("unk", s.unk)})
    info[name] = id ? Json{{"id", *id}, {"piece", tokenizer->id_to_piece(*id)}} : Json();
  if (flags.json) {
    print_line(info.dump(-1, ' ', true, Json::error_handler_t::replace));
    return 0;
  }
  print_line(fmt::format("kind  {}\nsize  {}", tokenizer->kind(), tokenizer->size()));
  for (const char* name : {"bos", "eos", "pad", "unk"})
    print_line(info[name].is_null()
                   ? fmt::format("{}   none", name)
                   : fmt::format("{}   {} {}", name, info[name]["id"].dump(), escaped(info[name]["piece"].get<std::string>())));
  return 0;
}

struct TokenizerTrainFlags {
  TokenizerTraining training;
  std::vector<std::string> input;
  std::string text_key = "text";
  int64_t threads = 0;
  template <class V>
  void each(V&& v) {
    TokenizerTraining& t = training;
    v("input", input, "text to learn from: .txt, .jsonl (also .gz, .zst, .xz), patterns, folders",
      required() & metavar("PATH") & reads_folder());
    v("output", t.output, "folder to write; Transformers reads it too", required() & filled() & writes() & metavar("DIR"));
    v("vocab-size", t.vocabulary, "size of the vocabulary; a small text may give fewer pieces", between(1, 1 << 24));
    v("type", t.type, "bpe and unigram: a SentencePiece tokenizer.model; byte-bpe: a byte-level tokenizer.json",
      one_of({"bpe", "unigram", "byte-bpe"}));
    v("pattern", t.pattern, "byte-bpe: rule that cuts text into words", one_of({"gpt2", "llama3", "qwen2"}));
    v("min-frequency", t.min_frequency, "byte-bpe: least number of occurrences of a pair that becomes a piece",
      between(1, INT32_MAX));
    v("normalization", t.normalization, "normalization of the text: none, or Unicode NFKC and tidied spaces",
      one_of({"identity", "nmt_nfkc"}));
    v("character-coverage", t.character_coverage,
      "share of the text's characters that get a piece each; for the others see --byte-fallback", between(0.98, 1));
    v("byte-fallback", t.byte_fallback, "encode characters without a piece as bytes; --byte-fallback=false: as the unk token");
    v("split-digits", t.split_digits, "make every digit a piece; --split-digits=false: do not");
    v("add-dummy-prefix", t.add_dummy_prefix,
      "add a space before the text, as before other words; --add-dummy-prefix=false: do not");
    v("symbols", t.symbols, "strings that are always one piece", metavar("TEXT"));
    v("special-tokens", t.special, "special tokens, always one piece, like a chat template's \"<|im_start|>\" \"<|im_end|>\"",
      metavar("TEXT .."));
    v("text-key", text_key, "field of a JSON line that holds the text", filled());
    v("max-bytes", t.max_bytes, "number of bytes of text to learn from, the first ones", between(1, 1e15));
    v("overwrite", t.overwrite, "replace an existing tokenizer of any type, with all its files");
    v("threads", threads, "threads for compute; 0: all cores", between(0, 4096));
  }
};

int run_train_tokenizer(TokenizerTrainFlags& flags, Config&) {
  flags.training.threads = narrow_option<int>(flags.threads, "--threads");
  SourceTexts text(flags.input, flags.text_key);
  TrainedTokenizer made = train_tokenizer(flags.training, text);
  Log log;
  if (made.cut_off)
    log.line("learned from the first {} of the text (--max-bytes)", human_bytes(static_cast<double>(made.bytes)));
  if (made.vocabulary < flags.training.vocabulary)
    log.warn("the text gives {}, fewer than the {} asked for", counted(made.vocabulary, "piece"), flags.training.vocabulary);
  log.line("tokenizer of {} pieces from {} of text in {}", made.vocabulary, human_bytes(static_cast<double>(made.bytes)),
           flags.training.output);
  return 0;
}

struct RenderFlags {
  std::string tokenizer, file, bos, eos;
  bool jsonl = false;
  template <class V>
  void each(V&& v) {
    v("tokenizer", tokenizer, "folder with the chat template; with --template: with bos and eos only",
      metavar("DIR") & reads());
    v("template", file, "a chat template: a file, or a name such as chatml",
      metavar("NAME-or-FILE") & reads() & or_words(template_words()));
    v("bos-token", bos, "with --template, without --tokenizer: text of bos");
    v("eos-token", eos, "with --template, without --tokenizer: text of eos");
    v("jsonl", jsonl, "JSON lines: read {\"messages\": [..]}, write {\"text\": \"..\"} or {\"error\": \"..\"}");
  }
};

std::unique_ptr<ChatTemplate> template_of(const RenderFlags& flags) {
  if (flags.tokenizer.empty() && flags.file.empty())
    throw UserError("no chat template", "command line", "--tokenizer or --template must name one",
                    "add --tokenizer DIR, or --template chatml");
  if (!flags.tokenizer.empty() && !(flags.bos + flags.eos).empty())
    throw UserError("--bos-token and --eos-token with --tokenizer", "command line", "the tokenizer has its own",
                    "leave them out, or --tokenizer");
  if (!flags.tokenizer.empty() && !flags.file.empty())
    return choose_template(flags.file, flags.tokenizer, *open_tokenizer(flags.tokenizer), "--template").chat;
  if (!flags.tokenizer.empty()) {
    auto found = load_chat_template(flags.tokenizer);
    if (!found)
      throw UserError("no chat template", flags.tokenizer,
                      "tokenizer_config.json has no chat_template, and there is no chat_template.jinja",
                      "name a folder that has one, or add --template chatml, or another name or file");
    return found;
  }
  std::string source = prompt_template(flags.file);
  if (source.empty()) check_template_name(flags.file, "--template"), source = read_template_file(flags.file);
  return std::make_unique<ChatTemplate>(source, flags.file, Json{{"bos_token", flags.bos}, {"eos_token", flags.eos}});
}

int run_render(RenderFlags& flags, Config&) {
  if (!flags.jsonl) throw UserError("the input of render", "command line", "the input must be JSON lines", "add --jsonl");
  auto chat = template_of(flags);
  each_line([&](std::string_view line, const std::string& where) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    Json conversation = parse_rendered(line, where, Rendered::all);
    if (!conversation.is_object() || !conversation.contains("messages") || !conversation["messages"].is_array())
      throw UserError("no conversation", where, "each line must be {\"messages\": [..]}", "correct the input");
    if (auto tools = conversation.find("tools"); tools != conversation.end() && !tools->empty())
      *tools = read_tools(conversation, where);
    Json result;
    try {
      result["text"] = chat->render(with_written_arguments(*chat, std::move(conversation)));
    } catch (const jinja::TemplateError& e) {
      result["error"] = e.what();
    }
    print_line(result.dump(-1, ' ', true, Json::error_handler_t::replace));
  });
  return 0;
}

}  // namespace

Command tokenizer_command() {
  const std::string group = "Data";
  return command_of(
      {.name = "tokenizer",
       .summary = "encode text, decode token ids, or make a tokenizer",
       .example = "ravine tokenizer train --input book.txt --output tok"},
      group,
      {command<EncodeFlags>({.name = "tokenizer encode",
                             .summary = "encode lines of stdin as lists of ids",
                             .example = "echo Hello | ravine tokenizer encode --tokenizer my-llama",
                             .sections = {},
                             .alone = true},
                            group, run_encode),
       command<DecodeFlags>({.name = "tokenizer decode",
                             .summary = "decode lists of ids to text",
                             .example = "echo '[1, 15043]' | ravine tokenizer decode --tokenizer my-llama",
                             .sections = {},
                             .alone = true},
                            group, run_decode),
       command<TokenizerInfoFlags>({.name = "tokenizer info",
                                    .summary = "print kind, size and special tokens",
                                    .example = "ravine tokenizer info --tokenizer my-llama",
                                    .sections = {},
                                    .alone = true},
                                   group, run_tokenizer_info),
       command<TokenizerTrainFlags>({.name = "tokenizer train",
                                     .summary = "make a tokenizer from text",
                                     .example = "ravine tokenizer train --input book.txt --output tok --vocab-size 4096",
                                     .sections = {},
                                     .alone = true,
                                     .lasting = true},
                                    group, run_train_tokenizer),
       command<RenderFlags>({.name = "tokenizer render",
                             .summary = "render conversations as text by a chat template",
                             .example = "ravine tokenizer render --tokenizer my-chat --jsonl",
                             .sections = {},
                             .alone = true},
                            group, run_render)});
}

}  // namespace ravine
