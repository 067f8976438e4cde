#include "data/preprocess.h"

#include <unistd.h>

#include <simdjson.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"
#include "data/indexed/indexed_writer.h"
#include "data/preprocess_state.h"
#include "data/records/open_records.h"
#include "data/text_encoding.h"
#include "files/folder_lock.h"
#include "files/folder_mark.h"
#include "files/temporary.h"
#include "text/unicode/unicode.h"

namespace ravine {

namespace fs = std::filesystem;

namespace {

constexpr const char* kState = "state.json";
// Files of a list while it is written.
constexpr const char* kParts[] = {".bin", ".idx", ".lengths", ".documents", ".modes"};

// A run of records. The main thread reads it, a worker encodes it, and the main thread writes it in the order of
// reading.
struct Batch {
  std::vector<Record> records;  // the first `count` are used; the others keep their memory for reuse
  size_t count = 0;
  std::vector<StoredDocuments> lists;
  std::vector<std::pair<std::string, size_t>> left_out;  // reason and index of the record
  std::vector<size_t> repaired;
  int64_t file = 0, record = 0;  // position after the batch
  double bytes = 0;              // bytes of all files up to this position
  std::exception_ptr error;
  bool done = false;
};

class Workers {
 public:
  Workers(int count, std::function<void(Batch&)> work) : work_(std::move(work)) {
    try {
      for (int i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {  // above a limit of threads, fewer workers do the work
      if (threads_.empty()) throw;
    } catch (...) {  // the started threads wait for work
      end();
      throw;
    }
  }
  ~Workers() { end(); }
  void add(Batch& batch) {
    {
      std::lock_guard lock(mutex_);
      todo_.push_back(&batch);
    }
    todo_changed_.notify_one();
  }
  bool is_done(const Batch& batch) {
    std::lock_guard lock(mutex_);
    return batch.done;
  }
  void wait(const Batch& batch) {
    std::unique_lock lock(mutex_);
    done_changed_.wait(lock, [&] { return batch.done; });
  }

 private:
  void end() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    todo_changed_.notify_all();
    for (auto& t : threads_) t.join();
  }
  void run() {
    for (;;) {
      Batch* batch = nullptr;
      {
        std::unique_lock lock(mutex_);
        todo_changed_.wait(lock, [&] { return stop_ || !todo_.empty(); });
        if (stop_) return;
        batch = todo_.front();
        todo_.pop_front();
      }
      try {
        work_(*batch);
      } catch (...) {
        batch->error = std::current_exception();
      }
      {
        std::lock_guard lock(mutex_);
        batch->done = true;
      }
      done_changed_.notify_one();
    }
  }
  std::function<void(Batch&)> work_;
  std::mutex mutex_;
  std::condition_variable todo_changed_, done_changed_;
  std::deque<Batch*> todo_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// Reads the files of all inputs as one sequence of batches.
class Reading {
 public:
  Reading(const PreprocessOptions& o, const PreprocessState& state, const std::vector<std::string>& fields)
      : files_(state.files),
        rows_(o.rows),
        options_{.fields = fields, .option_name = "--json-keys", .whole_text = o.whole_text, .member = o.member},
        file_(state.file) {
    for (int64_t i = 0; i < file_; ++i) before_ += static_cast<double>(files_[static_cast<size_t>(i)].size);
    if (open())
      for (Record skipped; record_ < state.record; ++record_)
        if (!reader_->next(skipped))
          fail("preprocess: '{}' has {} records, {} were done", files_[static_cast<size_t>(file_)].path, record_, state.record);
  }
  // Fills the next batch; false at the end of the last file.
  bool fill(Batch& b) {
    constexpr size_t kBytes = 256 << 10, kRecords = 4096;
    b.count = 0;
    size_t bytes = 0;
    while (reader_ && bytes < kBytes && b.count < kRecords) {
      if (b.count == b.records.size()) b.records.emplace_back();
      Record& r = b.records[b.count];
      if (!reader_->next(r)) {
        before_ += static_cast<double>(files_[static_cast<size_t>(file_)].size);
        ++file_, record_ = 0;
        open();
        continue;
      }
      ++record_;
      bytes += r.body.size();
      ++b.count;
    }
    b.file = file_;
    b.record = record_;
    b.bytes = before_ + (reader_ ? reader_->done() * static_cast<double>(files_[static_cast<size_t>(file_)].size) : 0);
    return b.count > 0;
  }

 private:
  bool open() {
    reader_ = nullptr;
    const auto at = static_cast<size_t>(file_);
    if (at >= files_.size()) return false;
    if (!rows_.empty()) options_.first = rows_[at].first, options_.end = rows_[at].end, options_.lines = rows_[at].lines;
    reader_ = open_records(files_[at].path, options_);
    return true;
  }
  const std::vector<InputFile>& files_;
  const std::vector<RowsOfFile>& rows_;  // of each file; empty: all rows
  RecordOptions options_;
  std::unique_ptr<RecordReader> reader_;
  int64_t file_, record_ = 0;
  double before_ = 0;  // bytes of the completed files
};

TokenType chosen_type(const std::string& text, int64_t vocabulary, bool negative) {
  if (text.empty()) return negative ? TokenType::i32 : smallest_type(vocabulary);
  for (TokenType t : {TokenType::u8, TokenType::i8, TokenType::i16, TokenType::u16, TokenType::i32, TokenType::i64})
    if (text == name(t)) return t;
  throw UserError(fmt::format("unknown type '{}'", text), "--dtype", "one of uint8, int8, int16, uint16, int32, int64",
                  "choose another or leave it out");
}

class Job {
 public:
  Job(const PreprocessOptions& options, const Tokenizer& tokenizer, const RecordHandler& handler)
      : o_(options), handler_(handler), lists_(handler.lists()), folder_(options.output_prefix + ".preprocess") {
    for (const auto& l : lists_) own(l.name);
    for (const auto& l : lists_) types_.push_back(chosen_type(o_.type, tokenizer.size(), l.negative));
    state_.settings =
        fmt::format("{} {} {} {} {}", tokenizer.fingerprint(), tokenizer.size(), o_.whole_text, o_.strict, o_.settings);
    for (size_t i = 0; i < lists_.size(); ++i) state_.settings += fmt::format(" {}:{}", lists_[i].name, name(types_[i]));
  }

  PreprocessReport run() {
    std::vector<InputFile> files;
    for (const RowsOfFile& r : o_.rows) files.push_back(input_file(r.path));
    if (o_.rows.empty()) files = list_inputs(o_.inputs);
    std::vector<fs::path> made;  // missing folders, the innermost first
    std::error_code ec;
    for (fs::path p = folder_of(o_.output_prefix); !p.empty() && !fs::exists(p, ec); p = p.parent_path()) made.push_back(p);
    create_folders(folder_of(o_.output_prefix));
    if (fs::is_symlink(folder_, ec) || (fs::exists(folder_, ec) && !fs::is_directory(folder_, ec)))
      throw UserError("a file or link has the name of the work folder", folder_,
                      "preprocess saves its state there, to resume after a stop", "move it, or choose another --output-prefix");
    const bool theirs =
        // An empty folder that the user made is kept.
        fs::is_empty(folder_, ec) && !ec;
    auto leave = [&] {
      // Removes an empty folder only; a file or link of this name stays.
      if (!theirs) ::rmdir(folder_.c_str());
    };
    try {
      create_folders(folder_);
      work(files);
    } catch (...) {  // an error leaves only a saved state to resume from
      leave();
      for (const fs::path& p : made) fs::remove(p, ec);
      throw;
    }
    leave();
    PreprocessReport& r = state_.report;
    r.files = static_cast<int64_t>(files.size());
    for (const auto& l : lists_) {
      r.prefixes.push_back(prefix_of(l));
      const IndexedFile file(prefix_of(l));
      r.documents += file.documents();
      r.tokens += file.tokens();
    }
    return r;
  }

 private:
  void work(const std::vector<InputFile>& files) {
    std::error_code ec;
    refuse_foreign();  // before the lock, so that a folder of another program stays unchanged
    FolderLock lock(folder_);
    refuse_foreign();
    try {
      if (o_.restart) fs::remove(folder_ + "/" + kState, ec), clear();
      if (!PreprocessState::load(folder_, state_.settings, files, lists_.size(), &state_)) {
        check_free();
        state_.files = files;
      }
      mark();
      state_.report.resumed_at = state_.report.records;
      if (!state_.written) write_all();
      for (const auto& l : lists_) IndexedWriter::publish(folder_, l.name, prefix_of(l), o_.overwrite);
      clear();
    } catch (...) {
      writers_.clear();
      if (fs::symlink_status(folder_ + "/" + kState, ec).type() == fs::file_type::not_found) clear();
      throw;
    }
  }

  std::string prefix_of(const RecordHandler::List& l) const { return o_.output_prefix + "_" + l.name + "_document"; }

  void check_free() {
    for (const auto& l : lists_) refuse_existing(prefix_of(l), o_.overwrite);
  }

  void own(const std::string& list) {
    for (const char* part : kParts) parts_.insert(list + part);
  }

  // True if the entry is a file of this work. The mark names them, because an earlier call may have had other lists.
  bool is_work_file(const fs::directory_entry& entry) const {
    const std::string name = entry.path().filename().string();
    std::error_code ec;
    if (entry.symlink_status(ec).type() != fs::file_type::regular) return false;
    return name == kState || name == ".lock" || name == kFolderMark || parts_.count(name) || parse_temporary(name);
  }

  // Writes the mark of the folder, with the names of the work files.
  void mark() {
    FolderMark mark = read_mark(folder_).value_or(FolderMark{.run = new_run_id(), .files = {}, .kind = kPreprocessFolder});
    const size_t had = mark.files.size();
    for (const std::string& part : parts_) mark.files.try_emplace(part);
    if (had != mark.files.size()) write_mark(folder_, mark);
  }

  // Throws a UserError if the folder holds a file that is not of this work. The folder is a work folder by its mark, or
  // by a state of a version without marks.
  void refuse_foreign() {
    std::error_code ec;
    const auto mark = read_mark(folder_);
    const auto lists = PreprocessState::lists_in(folder_);
    const bool ours = (mark && (mark->kind == kPreprocessFolder || mark->kind.empty())) || (!mark && lists);
    if (ours && lists)
      for (const std::string& list : *lists) own(list);
    if (ours && mark)
      for (const auto& [name, file] : mark->files)
        if (fs::path(name).filename() == name &&
            std::find(std::begin(kParts), std::end(kParts), fs::path(name).extension()) != std::end(kParts))
          parts_.insert(name);
    for (const auto& entry : fs::directory_iterator(folder_))
      if (const auto temporary = parse_temporary(entry.path().filename().string());
          entry.path().filename() != ".lock" && !(temporary && temporary->target == ".lock") &&
          (!ours || !is_work_file(entry)) &&
          entry.symlink_status(ec).type() != fs::file_type::not_found)  // another process has just removed it
        throw UserError("the work folder has files that preprocess did not write", entry.path().string(),
                        "preprocess works here, and removes what it wrote at the end",
                        "move them away, or choose another --output-prefix");
  }

  // Removes the work files except the lock, which the caller holds. The state is removed after the files that it
  // describes, and the mark last. So the same call can resume after a kill in between.
  void clear() const {
    std::error_code ec;
    for (const auto& entry : fs::directory_iterator(folder_, ec))
      if (const fs::path name = entry.path().filename();
          name != ".lock" && name != kState && name != kFolderMark && is_work_file(entry))
        fs::remove(entry.path(), ec);
    for (const char* last : {kState, kFolderMark})
      if (fs::symlink_status(folder_ + "/" + last, ec).type() == fs::file_type::regular) fs::remove(folder_ + "/" + last, ec);
  }

  void write_all() {
    for (size_t i = 0; i < lists_.size(); ++i)
      writers_.push_back(std::make_unique<IndexedWriter>(folder_, lists_[i].name, types_[i], false,
                                                         state_.lists.empty() ? nullptr : &state_.lists[i]));
    for (const InputFile& f : state_.files) total_bytes_ += static_cast<double>(f.size);
    const int count = std::max(1, o_.workers);
    std::deque<std::unique_ptr<Batch>> ready, free;  // ready: in the order of reading; free: for reuse
    Reading reading(o_, state_, handler_.fields());
    {
      Workers workers(count, [this](Batch& b) { encode(b); });
      const size_t most = 2 * static_cast<size_t>(count) + 2;
      for (bool more = true; more || !ready.empty();) {
        while (!ready.empty() && workers.is_done(*ready.front())) take(ready, free);
        if (more && ready.size() < most) {
          std::unique_ptr<Batch> batch;
          if (free.empty()) {
            batch = std::make_unique<Batch>();
          } else {
            batch = std::move(free.front());
            free.pop_front();
          }
          more = fill(reading, *batch);
          batch->done = batch->error != nullptr;  // an error is thrown after all earlier batches are written
          if (!more && !batch->error) continue;
          ready.push_back(std::move(batch));
          if (more) workers.add(*ready.back());
        } else if (!ready.empty()) {
          workers.wait(*ready.front());
        }
      }
    }
    state_.file = static_cast<int64_t>(state_.files.size());
    state_.record = 0;
    for (auto& w : writers_) w->finish();
    state_.written = true;
    save();
    writers_.clear();
  }

  // Fills a batch. An exception is stored in the batch, so that it is thrown after the records before it are written.
  static bool fill(Reading& reading, Batch& b) {
    b.error = nullptr;
    try {
      return reading.fill(b);
    } catch (...) {
      b.error = std::current_exception();
      return false;
    }
  }

  void encode(Batch& b) const {
    b.lists.resize(lists_.size());
    for (StoredDocuments& list : b.lists) list.clear();
    b.left_out.clear();
    b.repaired.clear();
    HandledRecord h;
    for (size_t i = 0; i < b.count; ++i) {
      Record& r = b.records[i];
      if (!simdjson::validate_utf8(r.body.data(), r.body.size())) {
        if (o_.strict)
          throw UserError("text is not UTF-8", fmt::format("{}, byte {} of the record", r.where(), find_invalid_utf8(r.body)),
                          "with --strict nothing is repaired", encoding_advice(r.body, *r.file));
        b.repaired.push_back(i);
        if (constexpr size_t kFew = 64; b.repaired.size() >= kFew && b.repaired.size() == i + 1)
          throw UserError(
              "text is not UTF-8", r.where(),
              fmt::format("the {} records before it are not UTF-8 either, and text full of U+FFFD teaches nothing", i),
              encoding_advice(r.body, *r.file));
        r.body = lossy_utf8(r.body);
      }
      h.lists.resize(lists_.size());
      for (TokenDocument& d : h.lists) d.ids.clear(), d.lengths.clear();
      h.dropped.clear();
      handler_.handle(r, h);
      require(h.lists.size() == lists_.size(), "handler: it must fill {} lists, got {}", lists_.size(), h.lists.size());
      for (std::string& why : h.dropped) {
        if (o_.strict && why == kEmptyText)
          throw UserError("empty document", r.where(), "with --strict every record must hold text", "remove the record");
        b.left_out.emplace_back(std::move(why), i);
      }
      for (size_t k = 0; k < lists_.size(); ++k)
        if (!h.lists[k].lengths.empty()) b.lists[k].add(types_[k], h.lists[k].ids, h.lists[k].lengths, r.where());
    }
  }

  // Writes the first batch.
  void take(std::deque<std::unique_ptr<Batch>>& ready, std::deque<std::unique_ptr<Batch>>& free) {
    std::unique_ptr<Batch> b = std::move(ready.front());
    ready.pop_front();
    if (b->error) {
      if (state_.report.records > 0) save();  // keeps the work on the earlier records
      std::rethrow_exception(b->error);
    }
    PreprocessReport& r = state_.report;
    for (size_t k = 0; k < lists_.size(); ++k) writers_[k]->add_documents(b->lists[k]);
    for (const auto& [why, i] : b->left_out)
      if (++r.left_out[why] == 1) r.first[why] = b->records[i].where();
    if (!b->repaired.empty() && r.repaired == 0) r.first_repaired = b->records[b->repaired[0]].where();
    r.repaired += static_cast<int64_t>(b->repaired.size());
    r.records += static_cast<int64_t>(b->count);
    state_.file = b->file;
    state_.record = b->record;
    const double now = seconds_now();
    const bool stop = o_.stop && o_.stop();
    if (stop || now - saved_ >= o_.save_seconds) save();
    if (stop) throw Stopped(fmt::format("stopped after {}; the same command goes on from there", counted(r.records, "record")));
    if (o_.progress) {
      int64_t tokens = 0;
      for (const auto& w : writers_) tokens += w->tokens();
      o_.progress({b->bytes, total_bytes_, r.records, tokens});
    }
    free.push_back(std::move(b));
  }

  void save() {
    state_.lists.clear();
    for (auto& w : writers_) state_.lists.push_back(w->flush(true));
    state_.save(folder_);
    saved_ = seconds_now();
  }

  const PreprocessOptions& o_;
  const RecordHandler& handler_;
  std::vector<RecordHandler::List> lists_;
  std::vector<TokenType> types_;
  std::string folder_;
  std::set<std::string> parts_;  // names of work files in the folder
  PreprocessState state_;
  std::vector<std::unique_ptr<IndexedWriter>> writers_;
  double total_bytes_ = 0;
  double saved_ = seconds_now();
};

}  // namespace

PreprocessReport preprocess(const PreprocessOptions& options, const Tokenizer& tokenizer, const RecordHandler& handler) {
  require(options.workers >= 1, "preprocess: at least one worker, got {}", options.workers);
  return Job(options, tokenizer, handler).run();
}

}  // namespace ravine
