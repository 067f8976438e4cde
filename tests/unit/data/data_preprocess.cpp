#include "data/preprocess.h"

#include <chrono>
#include <set>

#include "data/handlers/all_handlers.h"
#include "data/indexed/indexed_file.h"
#include "data/record_reader.h"
#include "tests/unit/data_help.h"
#include "tests/unit/traced_child.h"

namespace ravine {
namespace test_data_preprocess {

using test::Bytes;
using test::Folder;
using Ids = std::vector<int32_t>;

std::vector<Ids> documents(const std::string& prefix) {
  const IndexedFile file(prefix);
  std::vector<Ids> all;
  for (int64_t d = 0; d < file.documents(); ++d) {
    all.emplace_back();
    for (int64_t s = file.document_begin(d); s < file.document_begin(d + 1); ++s) {
      Ids ids(static_cast<size_t>(file.length(s)));
      file.copy(s, 0, ids);
      all.back().insert(all.back().end(), ids.begin(), ids.end());
    }
  }
  return all;
}

Ids bytes_of(const std::string& text) { return Bytes().encode(text, false); }

std::string whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Job {
  Folder f;
  Bytes tokenizer;
  HandlerOptions h;
  PreprocessOptions o;
  Job() {
    h.tokenizer = &tokenizer;
    o.output_prefix = f / "out/p";
  }
  PreprocessReport run() { return preprocess(o, tokenizer, *make_record_handler("text", h)); }
};

TEST(Preprocess, texts_of_every_kind_of_file_in_order) {
  Job s;
  s.o.inputs = {s.f.write("in/a.txt", "one\ntwo\n"),
                s.f.write("in/b.jsonl", "{\"text\":\"three\"}\n{\"text\":\"\"}\n{\"text\":[\"fo\",\"ur\"]}\n"),
                s.f.write("in/c.json", "[{\"text\":\"f\\u0069ve\"}]"), s.f.write("in/d.csv", "text\nsix\n")};
  s.h.append_eod = true;
  const PreprocessReport r = s.run();
  auto with_end = [](const std::string& text) {
    Ids ids = bytes_of(text);
    ids.push_back(2);
    return ids;
  };
  EXPECT_EQ(documents(s.f / "out/p_text_document"), (std::vector<Ids>{with_end("one"), with_end("two"), with_end("three"),
                                                                      with_end("four"), with_end("five"), with_end("six")}));
  EXPECT_EQ(IndexedFile(s.f / "out/p_text_document").sequences(), 7);
  EXPECT_EQ(IndexedFile(s.f / "out/p_text_document").type(), TokenType::u16);
  EXPECT_EQ(r.records, 7);
  EXPECT_EQ(r.documents, 6);
  EXPECT_EQ(r.left_out, (std::map<std::string, int64_t>{{kEmptyText, 1}}));
  EXPECT_EQ(r.first.at(kEmptyText), s.o.inputs[1] + ":2");
  EXPECT_FALSE(std::filesystem::exists(s.f / "out/p.preprocess"));
  EXPECT_USER_ERROR(s.run(), "output exists");
  s.o.overwrite = true;
  s.o.inputs = {s.o.inputs[0]};
  s.o.whole_text = true;
  s.o.type = "int64";
  s.run();
  EXPECT_EQ(documents(s.f / "out/p_text_document"), (std::vector<Ids>{with_end("one\ntwo\n")}));
  EXPECT_EQ(IndexedFile(s.f / "out/p_text_document").type(), TokenType::i64);
}

TEST(Preprocess, keys_give_files_of_their_own) {
  Job s;
  s.o.inputs = {s.f.write("a.jsonl", "{\"q\":\"a\",\"a\":\"bc\"}\n{\"a\":\"d\",\"q\":null}\n")};
  s.h.keys = {"q", "a"};
  EXPECT_EQ(s.run().prefixes, (std::vector<std::string>{s.f / "out/p_q_document", s.f / "out/p_a_document"}));
  EXPECT_EQ(documents(s.f / "out/p_q_document"), (std::vector<Ids>{bytes_of("a")}));
  EXPECT_EQ(documents(s.f / "out/p_a_document"), (std::vector<Ids>{bytes_of("bc"), bytes_of("d")}));
}

// A text per record, of many lengths; larger than a few batches.
std::string corpus(int records, int bad = -1) {
  std::string text;
  for (int i = 0; i < records; ++i)
    text += i == bad ? "{\"text\" \"\"}\n"
                     : "{\"text\":\"" + std::to_string(i) + " " +
                           std::string(static_cast<size_t>(i * 37 % 3000), static_cast<char>('a' + i % 26)) + "\"}\n";
  return text;
}

TEST(Preprocess, bytes_do_not_depend_on_workers) {
  Job s;
  s.o.inputs = {s.f.write("a.jsonl", corpus(3000)), s.f.write("b.jsonl", corpus(500))};
  std::string idx, bin;
  for (int workers : {1, 2, 5}) {
    s.o.workers = workers;
    s.o.overwrite = true;
    s.run();
    if (workers == 1) idx = whole(s.f / "out/p_text_document.idx"), bin = whole(s.f / "out/p_text_document.bin");
    EXPECT_TRUE(whole(s.f / "out/p_text_document.idx") == idx && whole(s.f / "out/p_text_document.bin") == bin) << workers;
  }
  EXPECT_EQ(IndexedFile(s.f / "out/p_text_document").documents(), 3500);
}

TEST(Preprocess, goes_on_where_it_was_stopped) {
  Job s;
  s.o.inputs = {s.f.write("a.jsonl", corpus(1500)), s.f.write("b.jsonl", corpus(1700)), s.f.write("c.txt", "last\n")};
  s.o.workers = 2;
  s.o.save_seconds = 0;
  s.run();
  const std::string idx = whole(s.f / "out/p_text_document.idx"), bin = whole(s.f / "out/p_text_document.bin");
  std::filesystem::remove_all(s.f / "out");
  int stops = 0;
  std::set<int64_t> at;
  for (bool done = false; !done; ++stops) {
    int batches = 0;
    s.o.stop = [&] { return ++batches > 2; };
    try {
      at.insert(s.run().resumed_at);
      done = true;
    } catch (const Stopped&) {
      EXPECT_FALSE(std::filesystem::exists(s.f / "out/p_text_document.bin"));
      // Data written after the last save is discarded.
      std::ofstream(s.f / "out/p.preprocess/text.bin", std::ios::app | std::ios::binary) << "half a document";
      std::ofstream(s.f / "out/p.preprocess/text.lengths", std::ios::app | std::ios::binary) << "xyz";
    }
    ASSERT_LT(stops, 50);
  }
  EXPECT_GT(stops, 3);
  EXPECT_GT(*at.rbegin(), 1500);
  EXPECT_TRUE(whole(s.f / "out/p_text_document.idx") == idx && whole(s.f / "out/p_text_document.bin") == bin);
}

TEST(Preprocess, what_cannot_be_gone_on_with_is_named) {
  Job s;
  const auto a = s.f.write("a.jsonl", corpus(1500, 1400)), b = s.f.write("b.jsonl", corpus(5));
  s.o.inputs = {a, b};
  const std::string where = a + ":1401";
  EXPECT_USER_ERROR(s.run(), where);
  EXPECT_TRUE(std::filesystem::exists(s.f / "out/p.preprocess/state.json"));
  EXPECT_FALSE(std::filesystem::exists(s.f / "out/p_text_document.idx"));
  EXPECT_USER_ERROR(s.run(), where);  // again, from the last save
  s.h.append_eod = true;
  s.o.settings = "other";
  EXPECT_USER_ERROR(s.run(), "it had another --");
  s.o.settings = "";
  s.f.write("a.jsonl", corpus(1600));
  EXPECT_USER_ERROR(s.run(), a + " has changed since");
  s.f.write("out/p.preprocess/state.json", "{}");
  EXPECT_USER_ERROR(s.run(), "its state.json is damaged");
  s.o.restart = true;
  EXPECT_EQ(s.run().documents, 1605);
}

// A kill between the renames: both files must appear with the next call.
TEST(Preprocess, finishes_what_was_about_to_appear) {
  Job s;
  s.o.inputs = {s.f.write("a.txt", "one\n")};
  bool polls = false;
  s.o.stop = [&] { return std::exchange(polls, true) == false; };
  EXPECT_THROW(s.run(), Stopped);
  s.o.stop = nullptr;
  std::string state = whole(s.f / "out/p.preprocess/state.json");
  const std::string bin = whole(s.f / "out/p.preprocess/text.bin");
  s.run();
  const std::string idx = whole(s.f / "out/p_text_document.idx");
  std::filesystem::create_directories(s.f / "out/p.preprocess");
  const size_t flag = state.find("\"written\": false");
  ASSERT_NE(flag, std::string::npos);
  s.f.write("out/p.preprocess/state.json", state.replace(flag, 16, "\"written\": true"));
  std::filesystem::remove(s.f / "out/p_text_document.idx");
  s.f.write("out/p.preprocess/text.idx", idx);  // the .bin is at its place already
  EXPECT_EQ(s.run().documents, 1);
  EXPECT_EQ(whole(s.f / "out/p_text_document.bin"), bin);
}

// Killed while it removes its work: what is left is still known as ours, and the same command ends well.
TEST(Preprocess, a_kill_while_the_work_is_removed) {
  int moments = 0;
  for (int n = 1;; ++n) {
    Job s;
    s.o.inputs = {s.f.write("a.txt", "one\ntwo\n")};
    bool removing = false;
    const TracedChild child = trace_child(n, [&] { s.run(); });
    if (!child.possible) GTEST_SKIP() << "no tracing here";
    if (!child.killed) break;
    for (const std::string& call : child.calls)
      removing = removing || (call.starts_with("unlink ") && call.find(".lengths") != std::string::npos);
    if (!removing) continue;
    ++moments;
    s.o.overwrite = true;
    EXPECT_EQ(s.run().documents, 2) << "killed at " << child.calls.back();
    // Once the mark has gone nothing says whose the empty folder is.
    const std::filesystem::path folder = s.f / "out/p.preprocess";
    EXPECT_TRUE(!std::filesystem::exists(folder) || std::filesystem::is_empty(folder)) << child.calls.back();
    ASSERT_LT(n, 300);
  }
  EXPECT_GT(moments, 4);
}

TEST(Preprocess, bad_input) {
  Job s;
  auto with = [&](const std::string& text) {
    s.o.inputs = {s.f.write("a.jsonl", text)};
    s.o.restart = s.o.overwrite = true;
  };
  with("{\"text\":\"a\xff\xf0\x9f\"}\n");
  const PreprocessReport r = s.run();
  EXPECT_EQ(documents(s.f / "out/p_text_document"), (std::vector<Ids>{bytes_of("a\xEF\xBF\xBD\xEF\xBF\xBD")}));
  EXPECT_EQ(r.repaired, 1);
  EXPECT_EQ(r.first_repaired, s.o.inputs[0] + ":1");
  s.o.strict = true;
  EXPECT_USER_ERROR(s.run(), "text is not UTF-8 (" + s.o.inputs[0] + ":1, byte 10 of the record)");
  with("{\"text\":\"\"}\n");
  EXPECT_USER_ERROR(s.run(), "empty document");
  s.o.strict = false;
  EXPECT_EQ(s.run().documents, 0);
  with("{\"tex\":\"\"}\n");
  EXPECT_USER_ERROR(s.run(), "did you mean 'tex'?");
  with("{\"text\":1}\n");
  EXPECT_USER_ERROR(s.run(), "'text' is not a text");
  with("[1]\n");
  EXPECT_USER_ERROR(s.run(), "not a JSON object");
  with("{\"text\":\"a\"}\n{\"text\":\n");
  EXPECT_USER_ERROR(s.run(), s.o.inputs[0] + ":2");
  with("{\"text\":\"" + std::string(50 << 20, 'x') + "\"}\n");
  EXPECT_EQ(s.run().tokens, 50 << 20);
  s.o.inputs = {s.f / "none.jsonl"};
  EXPECT_USER_ERROR(s.run(), "no such data");
  with("{\"text\":\"abc\"}\n");
  s.o.type = "int8";
  EXPECT_EQ(s.run().tokens, 3);
  with("{\"text\":\"\xC3\xA9\"}\n");
  EXPECT_USER_ERROR(s.run(), "does not fit (" + s.o.inputs[0] + ":1)");
  s.o.type = "float32";
  EXPECT_USER_ERROR(s.run(), "unknown type 'float32'");
  EXPECT_USER_ERROR(make_record_handler("txt", s.h), "unknown handler");
  Bytes no_end(false, false);
  s.h.tokenizer = &no_end;
  s.h.append_eod = true;
  EXPECT_USER_ERROR(make_record_handler("text", s.h), "the tokenizer has no end token");
}

// Omitted and repaired texts are counted over all batches and files, and over a stop. The first position of each kind
// is kept.
TEST(Preprocess, counts_and_first_positions_of_all) {
  Job s;
  std::string lines;
  for (int i = 0; i < 9000; ++i)
    lines += i % 3 == 1 ? "{\"text\":\"\"}\n" : i % 1000 == 500 ? "{\"text\":\"a\xff\"}\n" : "{\"text\":\"b\"}\n";
  s.o.inputs = {s.f.write("a.txt", "one\n"), s.f.write("b.jsonl", lines),
                s.f.write("c.jsonl", "{\"text\":\"\"}\n{\"text\":\"c\xff\"}\n")};
  s.o.workers = 2;
  s.o.save_seconds = 0;
  PreprocessReport r;
  for (int stops = 0;; ++stops) {
    int polls = 0;
    s.o.stop = [&] { return ++polls == 2; };
    try {
      r = s.run();
      EXPECT_GE(stops, 1);
      break;
    } catch (const Stopped& e) {
      EXPECT_NE(std::string(e.what()).find("records; the same command goes on from there"), std::string::npos);
    }
    ASSERT_LT(stops, 20);
  }
  EXPECT_EQ(r.files, 3);
  EXPECT_EQ(r.records, 9003);
  EXPECT_EQ(r.left_out, (std::map<std::string, int64_t>{{kEmptyText, 3001}}));
  EXPECT_EQ(r.first.at(kEmptyText), s.o.inputs[1] + ":2");
  const int64_t bad = 6 + 1;  // 500, 2500, 3500, 5500, 6500, 8500 leave no rest of one by three
  EXPECT_EQ(r.repaired, bad);
  EXPECT_EQ(r.first_repaired, s.o.inputs[1] + ":501");
  EXPECT_EQ(r.documents, 9003 - 3001);
  EXPECT_GT(r.resumed_at, 0);
}

TEST(Preprocess, progress_goes_from_nothing_to_all) {
  Job s;
  s.o.inputs = {s.f.write("a.jsonl", corpus(1500)), s.f.write("b.jsonl", corpus(700))};
  double total = 0, last = -1;
  int64_t records = 0, tokens = 0, calls = 0;
  for (const auto& path : s.o.inputs) total += static_cast<double>(std::filesystem::file_size(path));
  s.o.progress = [&](const PreprocessProgress& p) {
    EXPECT_EQ(p.total_bytes, total);
    EXPECT_GE(p.bytes, last);
    EXPECT_LE(p.bytes, total);
    EXPECT_GT(p.records, records);
    EXPECT_GT(p.tokens, tokens);
    last = p.bytes, records = p.records, tokens = p.tokens;
    ++calls;
  };
  const PreprocessReport r = s.run();
  EXPECT_GT(calls, 5);
  EXPECT_EQ(last, total);
  EXPECT_EQ(records, 2200);
  EXPECT_EQ(tokens, r.tokens);
}

// The progress belongs to the files in their order, unchanged. Files that were not begun may change.
TEST(Preprocess, files_that_were_begun_stay_as_they_were) {
  namespace fs = std::filesystem;
  auto stopped = [](Job& s) {
    s.o.inputs = {s.f.write("a.jsonl", corpus(1500)), s.f.write("b.jsonl", corpus(1500)), s.f.write("c.txt", "last\n")};
    s.o.save_seconds = 0;
    int polls = 0;
    s.o.stop = [&] { return ++polls == 2; };
    EXPECT_THROW(s.run(), Stopped);
    s.o.stop = nullptr;
  };
  {
    Job s;
    stopped(s);
    s.f.write("c.txt", "another\nend\n");
    EXPECT_EQ(s.run().documents, 3002);
  }
  {
    Job s;
    stopped(s);
    fs::last_write_time(s.o.inputs[0], fs::last_write_time(s.o.inputs[0]) + std::chrono::seconds(1));
    EXPECT_USER_ERROR(s.run(), s.o.inputs[0] + " has changed since");
  }
  {
    Job s;
    stopped(s);
    std::swap(s.o.inputs[0], s.o.inputs[1]);
    EXPECT_USER_ERROR(s.run(), "or is not the same place among the inputs");
  }
  {
    Job s;
    stopped(s);
    s.o.type = "int32";
    EXPECT_USER_ERROR(s.run(), "it had another --json-keys or --dtype");
    s.o.type = "";
    s.o.strict = true;
    EXPECT_USER_ERROR(s.run(), "it had another --strict");
    s.o.strict = false;
    s.o.whole_text = true;
    EXPECT_USER_ERROR(s.run(), "it had another --split-by-document");
    s.o.whole_text = false;
    EXPECT_EQ(s.run().documents, 3001);
  }
}

TEST(Preprocess, what_the_text_handler_refuses) {
  Job s;
  auto refused = [&](const std::function<void(HandlerOptions&)>& change, const char* part) {
    HandlerOptions h = s.h;
    change(h);
    EXPECT_USER_ERROR(make_record_handler("", h), part);
  };
  refused([](auto& h) { h.keys = {}; }, "no keys (--json-keys)");
  refused([](auto& h) { h.keys = {"a", "b", "a"}; }, "key 'a' twice");
  refused([](auto& h) { h.keys = {"a/b"}; }, "a key becomes part of a file name");
  refused([](auto& h) { h.sequence_length = 5; }, "texts are not dropped by length");
  refused([](auto& h) { h.chat_template = "chatml"; }, "text takes no template");
  s.h.keys = {"q", "text"};
  s.o.inputs = {s.f.write("a.txt", "one\n")};
  EXPECT_USER_ERROR(s.run(), "no key 'q' (" + s.o.inputs[0] + ":1): a .txt file has the key 'text' only");
  s.h.keys = {"text"};
  s.h.append_eod = true;  // behind a list of texts once, and not behind nothing
  s.o.restart = s.o.overwrite = true;
  s.o.inputs = {s.f.write("b.jsonl", "{\"text\":[\"a\",\"\",\"b\"]}\n{\"text\":[]}\n{\"text\":null}\n")};
  const PreprocessReport r = s.run();
  EXPECT_EQ(documents(s.f / "out/p_text_document"), (std::vector<Ids>{{'a' + 3, 'b' + 3, 2}}));
  EXPECT_EQ(IndexedFile(s.f / "out/p_text_document").sequences(), 2);
  EXPECT_EQ(r.left_out.at(kEmptyText), 2);
  EXPECT_EQ(r.documents, 1);
  s.o.inputs = {s.f.write("c.jsonl", "{\"text\":[1]}\n")};
  EXPECT_USER_ERROR(s.run(), "'text' is not a text");
}

}  // namespace test_data_preprocess
}  // namespace ravine
