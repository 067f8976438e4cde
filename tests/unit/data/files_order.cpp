// A file with its final name is on the disk. Each writer's system calls in a traced child are read as if the power
// could fail between any two.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/handlers/all_handlers.h"
#include "data/indexed/indexed_writer.h"
#include "data/preprocess.h"
#include "files/atomic.h"
#include "files/file_set.h"
#include "files/npy.h"
#include "files/safetensors.h"
#include "files/torch_save.h"
#include "io/checkpoint.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/io_checkpoint_state.h"
#include "tests/unit/text_help.h"
#include "tests/unit/traced_child.h"

using namespace ravine;
namespace fs = std::filesystem;

namespace test_files_order {

bool is_temporary(const std::string& path) { return fs::path(path).filename().string().find(".ravine-") != std::string::npos; }

// The states of a disk that keeps what was synced and may lose the rest.
class Disk {
 public:
  // Returns the error of the calls; "" if there is none.
  std::string play(const std::vector<std::string>& calls) {
    for (const std::string& call : calls) {
      const size_t one = call.find(' '), two = call.find(' ', one + 1);
      const std::string verb = call.substr(0, one), a = call.substr(one + 1, two - one - 1),
                        b = two == std::string::npos ? "" : call.substr(two + 1);
      if (verb == "create") files_[a] = true, made_in(a);
      if (verb == "mkdir") folders_[a] = false, made_in(a);
      if (verb == "write" && fs::path(a).filename().string().starts_with("#")) files_[a] = true;  // made without a name
      if ((verb == "write" || verb == "truncate" || verb == "allocate") && files_.count(a)) files_[a] = true;
      if (verb == "fsync") {
        if (files_.count(a)) files_[a] = false;
        if (folders_.count(a)) folders_[a] = false;
        owed_.erase(a);
      }
      if (verb == "unlink") remove(a);
      if (verb == "rename" || verb == "exchange" || verb == "link") rename(a, b);
    }
    for (const std::string& folder : owed_) wrong_ += "the names in " + folder + " are not synced at the end\n";
    return wrong_;
  }
  int named() const { return named_; }

 private:
  static bool within(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
  }
  void made_in(const std::string& path) {
    if (const auto at = folders_.find(folder_of(path)); at != folders_.end()) at->second = true;
  }
  void remove(const std::string& path) {
    if (!files_.erase(path) && !folders_.erase(path) && !owed_.empty())
      wrong_ += path + ", which was there before, goes while names in " + *owed_.begin() + " are not synced\n";
  }
  template <class Map>
  void move(Map& all, const std::string& a, const std::string& b, const char* what) {
    Map moved;
    for (auto at = all.begin(); at != all.end();) {
      if (!within(at->first, a)) {
        ++at;
        continue;
      }
      if (at->second && !is_temporary(b)) wrong_ += at->first + what + b + "\n";
      moved[b + at->first.substr(a.size())] = at->second;
      at = all.erase(at);
    }
    for (auto& [path, dirty] : moved) all[path] = dirty;
  }
  void rename(const std::string& a, const std::string& b) {
    if (fs::path(b).filename() == "latest" && !owed_.empty())
      wrong_ += "latest is written before the name of the checkpoint is synced\n";
    std::erase_if(files_, [&](const auto& f) { return within(f.first, b); });
    move(files_, a, b, " is not synced as it becomes ");
    move(folders_, a, b, ": its names are not synced as it becomes ");
    made_in(b);
    if (is_temporary(b)) return;
    ++named_;
    owed_.insert(folder_of(b));
  }

  std::map<std::string, bool> files_, folders_;  // made by the child: something of it is not synced
  std::set<std::string> owed_;                   // folders with a new name that is not synced
  std::string wrong_;
  int named_ = 0;
};

// `names`: how many names come to be at least.
void expect_order(int names, const std::function<void()>& write) {
  const TracedChild child = trace_child(0, write);
  if (!child.possible || child.status == 77) GTEST_SKIP() << "no tracing here";
  ASSERT_EQ(child.status, 0);
  Disk disk;
  EXPECT_EQ(disk.play(child.calls), "");
  EXPECT_GE(disk.named(), names);
}

TEST(Order, TheJudgeNoticesWhatIsLeftOut) {
  const std::vector<std::string> good{
      "create /d/x.ravine-1", "write /d/x.ravine-1", "fsync /d/x.ravine-1", "rename /d/x.ravine-1 /d/x", "fsync /d",
      "unlink /d/old"};
  EXPECT_EQ(Disk().play(good), "");
  for (const size_t left_out : {2, 4}) {
    auto bad = good;
    bad.erase(bad.begin() + static_cast<std::ptrdiff_t>(left_out));
    EXPECT_NE(Disk().play(bad), "") << good[left_out];
  }
  auto late = good;
  std::swap(late[1], late[2]);
  EXPECT_NE(Disk().play(late), "") << "a write behind the fsync";
  late = good;
  std::swap(late[4], late[5]);
  EXPECT_NE(Disk().play(late), "") << "the old one goes too early";
  std::vector<std::string> folder{"mkdir /d/m.ravine-1", "create /d/m.ravine-1/a",    "fsync /d/m.ravine-1/a",
                                  "fsync /d/m.ravine-1", "rename /d/m.ravine-1 /d/m", "fsync /d"};
  EXPECT_EQ(Disk().play(folder), "");
  for (const size_t left_out : {2, 3, 5}) {
    auto bad = folder;
    bad.erase(bad.begin() + static_cast<std::ptrdiff_t>(left_out));
    EXPECT_NE(Disk().play(bad), "") << folder[left_out];
  }
}

const std::string kText(5000, 'x');

TEST(Order, AFile) {
  for (bool there : {false, true}) {
    TemporaryFolder folder;
    const std::string path = folder / "file";
    if (there) spill(path, "old");
    const TracedChild child = trace_child(0, [&] { write_file_atomic(path, kText); });
    if (!child.possible) GTEST_SKIP() << "no tracing here";
    ASSERT_EQ(child.status, 0);
    std::string temporary;
    std::vector<std::string> expected;
    for (const std::string& call : child.calls) {
      if (call.starts_with("create "))
        temporary = call.substr(7), expected = {call, "write " + temporary, "fsync " + temporary};
      if (call.starts_with("link ")) {
        const std::string nameless = call.substr(5, call.find(' ', 5) - 5);
        temporary = call.substr(6 + nameless.size()), expected = {"write " + nameless, "fsync " + nameless, call};
      }
    }
    expected.insert(expected.end(), {"rename " + temporary + " " + path, "fsync " + folder.path()});
    EXPECT_EQ(child.calls, expected);
  }
}

TEST(Order, AFilePastTheCache) {
  TemporaryFolder folder;
  expect_order(1, [&] {
    AtomicFile file(folder / "file", true);
    for (int i = 0; i < 3000; ++i) file.write(kText);
    file.commit();
  });
}

void write_folder(AtomicFolder& building) {
  spill(building.folder() + "/a", kText);
  fs::create_directories(building.folder() + "/sub/deeper");
  spill(building.folder() + "/sub/deeper/b", kText);
  write_file_atomic(building.folder() + "/sub/c", kText);
}

TEST(Order, AFolder) {
  TemporaryFolder folder;
  expect_order(2, [&] {
    AtomicFolder building(folder / "new");
    write_folder(building);
    building.commit();
  });
}

TEST(Order, AFolderThatIsReplaced) {
  for (bool exchange : {true, false}) {
    TemporaryFolder folder;
    fs::create_directories(folder / "model");
    spill(folder / "model/old", "old");
    expect_order(2, [&] {
      if (!exchange && !refuse_exchange()) ::_exit(77);
      AtomicFolder building(folder / "model");
      write_folder(building);
      building.commit([](const std::string&) {});
    });
  }
}

TEST(Order, ASetOfFiles) {
  TemporaryFolder folder;
  for (const char* old : {"a.bin", "a.idx"}) spill(folder / old, "old");
  expect_order(3, [&] {
    FileSet set(folder / "a.set", {"test", {"a.bin", "a.idx"}});
    for (const char* name : {"a.bin", "a.idx"}) spill(set.folder() + "/" + name, kText);
    set.commit({"a.bin", "a.idx"}, true);
  });
}

TEST(Order, TensorsAndArrays) {
  TemporaryFolder folder;
  const std::vector<float> x(600, 1);
  const auto bytes = std::as_bytes(std::span(x));
  expect_order(3, [&] {
    save_safetensors(folder / "x.safetensors", {{"x", DType::f32, {600}, bytes}});
    write_npy(folder / "x.npy", DType::f32, {600}, bytes);
    TorchSave torch(folder / "x.pt");
    torch.begin_dict();
    torch.text("x");
    torch.tensor(DType::f32, {600});
    torch.end();
    torch.write(bytes);
    torch.commit();
  });
}

void write_tokens(const std::string& work, const std::string& prefix, bool overwrite) {
  fs::create_directories(work);
  IndexedWriter w(work, "a", TokenType::i32, false);
  StoredDocuments d;
  const std::vector<int32_t> ids{1, 2, 3, 4}, lengths{3, 1};
  d.add(TokenType::i32, ids, lengths, "here");
  w.add_documents(d);
  w.finish();
  IndexedWriter::publish(work, "a", prefix, overwrite);
}

TEST(Order, TokenFiles) {
  TemporaryFolder folder;
  expect_order(3, [&] { write_tokens(folder / "work.ravine-1", folder / "first", false); });
  write_tokens(folder / "work", folder / "second", false);
  expect_order(3, [&] { write_tokens(folder / "again", folder / "second", true); });
  expect_order(2, [&] { merge_indexed({folder / "first", folder / "second"}, folder / "all", false); });
}

// Whatever preprocess says in its state of what is done is on the disk before it says so.
TEST(Order, PreprocessAndItsState) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "{\"text\": \"record number " + std::to_string(i) + "\"}\n";
  spill(folder / "in.jsonl", text);
  test::Bytes tokenizer;
  expect_order(4, [&] {
    HandlerOptions h;
    h.tokenizer = &tokenizer;
    PreprocessOptions o;
    o.inputs = {folder / "in.jsonl"};
    o.output_prefix = folder / "out";
    o.save_seconds = 0;
    o.workers = 1;
    preprocess(o, tokenizer, *make_record_handler("text", h));
  });
}

void save(CheckpointWriter& writer, const std::string& dir, int64_t step, int64_t keep) {
  TestState live(3);
  live.fill(step);
  writer.save(dir, step, live.state(), keep);
  writer.wait();
  if (auto warning = writer.take_warning()) throw std::runtime_error(*warning);
}

TEST(Order, ACheckpointThenLatestThenTheOldOnesGo) {
  TemporaryFolder folder;
  const std::string dir = folder / "checkpoints";
  expect_order(3, [&] {
    CheckpointWriter writer;
    save(writer, dir, 10, 1);
  });
  expect_order(3, [&] {
    CheckpointWriter writer;
    save(writer, dir, 20, 1);  // 10 goes
  });
  expect_order(3, [&] {
    CheckpointWriter writer;
    save(writer, dir, 20, 1);  // again
  });
  EXPECT_FALSE(fs::exists(dir + "/step_000010"));
}

// The first rank takes the other's part into its folder. A machine may see the bytes of the part only once the disk has
// them.
TEST(Order, PartsOfTwoRanks) {
  TemporaryFolder folder;
  expect_order(5, [&] {
    std::vector<float> a(6, 1), b(6, 2);
    TrainState first, second;
    first.tensors.push_back({"x", view_of(a.data(), DType::f32, {3, 2}), {6, 2}, {}, 0});
    second.tensors.push_back({"x", view_of(b.data(), DType::f32, {3, 2}), {6, 2}, {3, 0}, 0});
    CheckpointWriter zero(0, 2, 7), one(1, 2, 7);
    one.save(folder / "checkpoints", 1, second, 0);
    zero.save(folder / "checkpoints", 1, first, 0);
    zero.wait(), one.wait();
    for (CheckpointWriter* w : {&zero, &one})
      if (auto warning = w->take_warning()) throw std::runtime_error(*warning);
  });
}

}  // namespace test_files_order
