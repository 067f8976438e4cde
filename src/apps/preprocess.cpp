#include "data/preprocess.h"

#include <algorithm>
#include <filesystem>

#include "apps/commands.h"
#include "apps/stop_signals.h"
#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/narrow_option.h"
#include "base/parallel.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "data/handlers/all_handlers.h"
#include "data/instruct/conversation.h"
#include "data/source.h"
#include "dialects/megatron.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace {

struct PreprocessFlags {
  PreprocessOptions options;
  HandlerOptions handling;
  std::string tokenizer, dataset, handler = "text";
  int64_t workers = 0;
  template <class V>
  void each(V&& v) {
    PreprocessOptions& o = options;
    HandlerOptions& h = handling;
    v("input", o.inputs, "files, folders or patterns: .txt .json .jsonl .csv .parquet .arrow, each also .gz .zst .xz",
      filled() & reads_folder());
    v("load-dataset", dataset, "instead of --input: arguments of Hugging Face's load_dataset, as JSON or a JSON file",
      metavar("JSON-or-FILE"));
    v("tokenizer", tokenizer, "folder, tokenizer.json, or tokenizer.model (raw SentencePiece)",
      required() & metavar("DIR-or-FILE") & reads());
    v("output-prefix", o.output_prefix, "prefix of the files to write: PREFIX_<key>_document.bin and .idx",
      required() & filled() & metavar("PREFIX") & writes());
    v("json-keys", h.keys, "fields that hold text; each field gives separate files", filled());
    v("append-eod", h.append_eod, "add the end token to the end of each document");
    v("handler", handler, "how a record becomes tokens; text takes --json-keys", one_of(record_handler_names()));
    v("seq-length", h.sequence_length, "leave out conversations of more tokens than this; 0: keep all",
      between(0, kMostTokens));
    v("template", h.chat_template, "chat template of conversations: a name or a file",
      metavar("NAME-or-FILE") & reads() & or_words(template_words()));
    v("workers", workers, "threads for encoding; 0: all cores", between(0, 4096));
    v("split-by-document", o.whole_text, "read a .txt file as one document; without it, each line is a document");
    v("dtype", o.type, "type of the tokens on disk: int32, uint16, ..; empty: as Megatron chooses, uint16 below 65500 tokens");
    v("strict", o.strict, "refuse bad UTF-8 and empty texts instead of repairing or leaving them out");
    v("save-every", o.save_seconds, "seconds between checkpoints, from which a killed command resumes", between(0, 1e6));
    v("restart", o.restart, "begin anew instead of resuming a killed command");
    v("overwrite", o.overwrite, "replace existing files of these names");
  }
};

// A progress bar on a terminal; a line now and then elsewhere.
class Bar {
 public:
  void show(const PreprocessProgress& p) {
    const double seconds = elapsed();
    if (first_bytes_ >= 0 && seconds - reported_at_ < (log_.terminal() ? 0.1 : 15)) return;
    reported_at_ = seconds;
    if (first_bytes_ < 0) first_bytes_ = p.bytes;
    const double fraction = p.total_bytes > 0 ? p.bytes / p.total_bytes : 1,
                 rate = (p.bytes - first_bytes_) / std::max(seconds, 1e-3);
    const std::string left = rate > 0 ? human_time((p.total_bytes - p.bytes) / rate) : "?";
    const std::string text =
        fmt::format("{} of {}, {}/s, {} records, {} tokens, {} left", human_bytes(p.bytes), human_bytes(p.total_bytes),
                    human_bytes(rate), p.records, human_count(static_cast<double>(p.tokens)), left);
    if (log_.terminal()) return log_.progress(fraction, text);
    if (rate > 0) log_.line("{}", text);
  }
  void end() { log_.end_progress(); }
  Log& log() { return log_; }
  double elapsed() const { return seconds_now() - begin_; }

 private:
  Log log_;
  double begin_ = seconds_now();
  double reported_at_ = 0, first_bytes_ = -1;
};

bool holds_plain_text(const std::string& input) {
  const std::vector<std::string> files = source_files(input);
  return std::any_of(files.begin(), files.end(), [](const std::string& file) { return source_kind(file) == SourceKind::text; });
}

// Sets the inputs: the rows of --load-dataset, or the files of --input.
void name_rows(const PreprocessFlags& f, PreprocessOptions& o, Log& log) {
  if (f.dataset.empty() == o.inputs.empty())
    throw UserError(
        f.dataset.empty() ? "neither --input nor --load-dataset is given" : "both --input and --load-dataset are given",
        "preprocess", "exactly one of them names the input", "name files or a folder by --input");
  if (f.dataset.empty()) return;
  std::vector<std::string> notices;
  const HfDatasetRequest request = read_hf_request(f.dataset, "--load-dataset", &notices);
  for (const std::string& line : notices) log.warn("{}", line);
  o.rows = rows_of_dataset(request, "--load-dataset");
  o.member = request.field;
  log.line("{} of {}: {}", request.split, request.path + (request.name.empty() ? "" : ", " + request.name),
           counted(static_cast<int64_t>(o.rows.size()), "file"));
}

int run_preprocess(PreprocessFlags& f, Config&) {
  const auto tokenizer = open_tokenizer(f.tokenizer);
  HandlerOptions h = f.handling;
  h.tokenizer = tokenizer.get();
  const bool conversations = value_named<ChatFormat>(f.handler).has_value();
  if (conversations && h.chat_template.empty() && std::filesystem::is_directory(f.tokenizer))
    h.chat_template = f.tokenizer;  // the tokenizer's template
  const auto handler = make_record_handler(f.handler, h);
  PreprocessOptions o = f.options;
  Bar bar;
  name_rows(f, o, bar.log());
  if (o.output_prefix.ends_with('/'))
    throw UserError(fmt::format("--output-prefix is '{}'", o.output_prefix), "preprocess",
                    "files are named PREFIX_KEY_document, so the prefix must end with the beginning of a file name",
                    fmt::format("write --output-prefix {}", shell_word(o.output_prefix + "text")));
  std::vector<std::string> outputs{o.output_prefix + ".preprocess"};
  for (const auto& list : handler->lists())
    for (const char* end : {".bin", ".idx"})
      outputs.push_back(fmt::format("{}_{}_document{}", o.output_prefix, list.name, end));
  refuse_inputs(options_of(f), "--output-prefix", outputs);
  o.workers = f.workers > 0 ? narrow_option<int>(f.workers, "--workers") : thread_count();
  o.settings = fmt::format("{} {} {} {}", f.handler, h.append_eod, h.sequence_length, f.handling.chat_template);
  for (const RowsOfFile& r : o.rows)
    if (r.first != 0 || r.end >= 0 || r.lines) o.settings += fmt::format(" {}-{}{}", r.first, r.end, r.lines ? " lines" : "");
  if (!o.member.empty()) o.settings += " " + o.member;
  o.progress = [&](const PreprocessProgress& p) { bar.show(p); };
  const StopSignals signals;
  o.stop = [&] { return signals.requested(); };
  PreprocessReport r;
  try {
    r = preprocess(o, *tokenizer, *handler);
  } catch (...) {
    bar.end();
    throw;
  }
  bar.end();
  Log& log = bar.log();
  if (r.resumed_at > 0) log.line("went on behind {} that an earlier run had done", counted(r.resumed_at, "record"));
  if (r.repaired > 0)
    log.warn("{} of {} had bad UTF-8, replaced by U+FFFD (first: {}); --strict names how to convert the file", r.repaired,
             counted(r.records, "record"), r.first_repaired);
  for (const auto& [why, count] : r.left_out)
    log.warn("left out: {} {} (first: {})", counted(count, "time"), why, r.first[why]);
  log.line("{} of {} in {}", counted(r.records, "record"), counted(r.files, "file"), human_time(bar.elapsed()));
  if (!o.whole_text && std::any_of(o.inputs.begin(), o.inputs.end(), holds_plain_text))
    log.line(
        "each line of a .txt file is a document here; --split-by-document takes the file as one, train a text as it runs on");
  for (const std::string& prefix : r.prefixes) {
    const IndexedFile file(prefix);
    fmt::print("{}: {}, {}, {} ({})\n", escaped(prefix), counted(file.documents(), "document"),
               counted(file.sequences(), "sequence"), counted(file.tokens(), "token"), name(file.type()));
  }
  if (r.tokens == 0)
    log.warn("no token was written, and training refuses such files: check --input{}, then run it again with --restart",
             r.left_out.empty() ? "" : " and what was left out");
  return 0;
}

}  // namespace

Command preprocess_command() {
  Command made = command<PreprocessFlags>(
      {.name = "preprocess",
       .summary = "tokenize corpora into .bin/.idx token files",
       .example =
           "ravine preprocess --input corpus/*.parquet --tokenizer models/llama --output-prefix data/corpus --append-eod",
       .about =
           "Tokenizes text or conversations into token files that Ravine and Megatron read. An output appears whole or not at all.",
       .alone = true,
       .lasting = true,
       .stoppable = true},
      "Data", run_preprocess);
  made.rewrite = preprocess_words;
  return made;
}

}  // namespace ravine
