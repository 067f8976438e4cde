#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/parallel.h"
#include "data/held_out.h"
#include "data/source.h"
#include "data/token_store.h"
#include "files/checksum.h"
#include "model/vocabulary.h"

namespace ravine {

namespace {

struct Document {
  std::string text, where;
  std::vector<int32_t> ids;
  uint64_t hash = 0;
  bool held_out = false;
};

constexpr size_t kRoundBytes = 8 << 20;  // bytes of text that are tokenized between two calls of progress

class Pass {
 public:
  Pass(const Tokenizer& tokenizer, const TokenizeOptions& options, TokenizedFiles& out)
      : tokenizer_(tokenizer),
        options_(options),
        out_(out),
        vocabulary_(options.vocabulary ? options.vocabulary : tokenizer.size()) {}

  void run(const std::vector<std::string>& files, const HeldOut& held_out) {
    plan_ = held_out;
    progress_.files = static_cast<int64_t>(files.size());
    out_.empty = 0;
    for (const auto& file : files) {
      out_.train.begin_file(file);
      out_.held_out.begin_file(file);
      auto reader = open_documents(file, options_.text_key);
      size_t bytes = 0;
      Document d;
      while (reader->next(d.text)) {
        d.where = reader->where();
        bytes += d.text.size();
        add(std::move(d));
        d = {};
        if (bytes >= kRoundBytes) finish_round(), bytes = 0;
      }
      out_.empty += reader->empty();
      ++progress_.files_done;
      finish_round();
    }
  }

  std::vector<DocumentSize> documents;  // filled if a share is held out
  bool any = false;

 private:
  // Queues a document; a document that is cut becomes two.
  void add(Document d) {
    if (options_.held_out > 0) {
      d.hash = checksum_of(std::as_bytes(std::span(d.text)));
      documents.push_back({d.hash, static_cast<int64_t>(d.text.size())});
      d.held_out = d.hash < plan_.threshold;
      if (const int64_t begin = plan_.tail > 0 && d.hash == plan_.cut ? held_out_begin(d.text, plan_.tail) : 0; begin > 0) {
        Document end;
        end.text = d.text.substr(static_cast<size_t>(begin));
        end.where = d.where;
        end.held_out = true;
        d.text.resize(static_cast<size_t>(begin));
        round_.push_back(std::move(d));
        d = std::move(end);
      }
    }
    round_.push_back(std::move(d));
  }

  void finish_round() {
    const int cores = options_.threads > 0 ? options_.threads : thread_count();
    const size_t workers = std::min(static_cast<size_t>(cores), round_.size());
    std::atomic<size_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;
    size_t error_at = SIZE_MAX;  // of several errors, the first in document order is thrown
    auto work = [&] {
      for (size_t i; (i = next.fetch_add(1)) < round_.size();) {
        try {
          tokenize(round_[i]);
        } catch (...) {
          std::lock_guard lock(mutex);
          if (i < error_at) error_at = i, error = std::current_exception();
        }
      }
    };
    std::vector<std::jthread> threads;
    for (size_t t = 1; t < workers; ++t) threads.emplace_back(work);
    work();
    threads.clear();
    if (error) std::rethrow_exception(error);
    for (const auto& d : round_) {
      any = true;
      (d.held_out ? out_.held_out : out_.train).append(d.ids);
      progress_.text_bytes += static_cast<int64_t>(d.text.size());
      progress_.tokens += static_cast<int64_t>(d.ids.size());
    }
    round_.clear();
    if (options_.progress) options_.progress(progress_);
  }

  void tokenize(Document& d) const {
    d.ids = tokenizer_.encode(d.text, true);
    auto eos = tokenizer_.special().eos;
    if (options_.append_eos && (d.ids.empty() || d.ids.back() != *eos)) d.ids.push_back(*eos);
    for (int32_t id : d.ids)
      if (id >= vocabulary_)
        throw UserError(fmt::format("token {} is beyond the vocabulary", id), d.where,
                        fmt::format("the model has ids 0 to {}, the tokenizer 0 to {}", vocabulary_ - 1, tokenizer_.size() - 1),
                        more_rows_advice(id));
    if (d.ids.empty()) d.ids.push_back(tokenizer_.special().unk.value_or(0));
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  TokenizedFiles& out_;
  int64_t vocabulary_;
  HeldOut plan_;
  std::vector<Document> round_;
  TokenizeProgress progress_;
};

}  // namespace

TokenizedFiles tokenize_files(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                              const TokenizeOptions& options) {
  require(options.held_out >= 0 && options.held_out < 1, "tokenize: the held out share is 0 <= share < 1, got {}",
          options.held_out);
  if (options.append_eos && !tokenizer.special().eos)
    throw UserError("the tokenizer has no end token", "data.append_eos", "eos is appended to each document",
                    "set data.append_eos=false");
  HeldOut plan = hold_out_documents(options.held_out);
  for (bool again = false;; again = true) {
    TokenizedFiles out{TokenStore(tokenizer.size()), TokenStore(tokenizer.size())};
    Pass pass(tokenizer, options, out);
    pass.run(files, plan);
    if (!pass.any)
      throw UserError("no text in the data", files.empty() ? "data.train" : files[0],
                      "at least one document with text is needed", "check the files");
    if (options.held_out == 0 || (!again && out.train.documents() > 0 && holds_share(pass.documents, plan, options.held_out)))
      return out;
    if (again && (out.train.documents() == 0 || out.held_out.documents() == 0))
      throw UserError("too little text to hold some out", files[0],
                      fmt::format("data.valid_fraction={} of it is less than a character", options.held_out),
                      "give more text, or name validation files in data.valid");
    if (again) return out;
    plan = hold_out_bytes(pass.documents, options.held_out);
  }
}

}  // namespace ravine
