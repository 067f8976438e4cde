// The default number of threads of tokenizing: the cores of the process, not of the machine.
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "base/parallel.h"
#include "data/token_store.h"
#include "tests/unit/data_help.h"

namespace ravine {
namespace test_data_threads {

class Seen : public test::Bytes {
 public:
  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    {
      std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Bytes::encode(text, add_special);
  }
  const std::set<std::thread::id>& threads() const { return threads_; }

 private:
  mutable std::mutex mutex_;
  mutable std::set<std::thread::id> threads_;
};

TEST(Tokenize, TakesTheThreadsOfTheProcess) {
  test::Folder f;
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "{\"text\":\"some text\"}\n";
  const std::vector<std::string> files{f.write("a.jsonl", lines)};
  const int before = thread_count();
  set_thread_count(1);
  const Seen alone;
  tokenize_files(files, alone, {.text_key = "text"});
  EXPECT_EQ(alone.threads(), std::set<std::thread::id>{std::this_thread::get_id()});
  set_thread_count(3);
  const Seen three;
  tokenize_files(files, three, {.text_key = "text"});
  EXPECT_LE(three.threads().size(), 3u);
  const Seen serial;
  tokenize_files(files, serial, {.text_key = "text", .threads = 1});
  EXPECT_EQ(serial.threads().size(), 1u);
  set_thread_count(before);
}

}  // namespace test_data_threads
}  // namespace ravine
