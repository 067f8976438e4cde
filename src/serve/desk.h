// Where requests are handed in, and one thread runs the model for all of them: sequences join the batch when a place is free and
// leave it when they end, or when nobody waits for them any more.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "infer/answer_text.h"
#include "infer/batcher.h"

namespace ravine {

// One text that is asked for.
struct Question {
  PromptModel prompt_model;
  uint64_t number = 0;  // its draws are those of (options.seed, number)
  std::string place;    // by which errors name it: "prompt 2 of the request"
  std::vector<int32_t> prompt;
  const Tokenizer* tokenizer = nullptr;
  std::vector<std::string> stops;
};

// What has been written since the piece before.
struct AnswerPiece {
  size_t choice = 0;  // of the request's questions
  std::string text;
  std::vector<NewToken> tokens;
  std::optional<Finish> finish;  // of the choice
  std::string error;             // ends the request, and no other
  bool late = false;             // the error is that its time is over
};

// The answers to the questions of a request, as they are written. One thread waits, the desk writes.
class Answers {
 public:
  explicit Answers(size_t choices) : open_(choices) {}
  // The next piece, or nothing after so many seconds, or when all has been said (over()).
  std::optional<AnswerPiece> wait(double seconds);
  bool over() const;              // no piece will come
  void leave() { left_ = true; }  // nobody waits any more: the places are free for others

 private:
  friend class Desk;
  void say(AnswerPiece piece);
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<AnswerPiece> pieces_;
  size_t open_;  // choices that are not done
  std::atomic<bool> left_{false};
  bool begun_ = false, counted_ = false;  // the desk's: some choice has a place; it is in no count any more
  double until_ = 0;                      // when its time is over
};

struct DeskLimits {
  int64_t places = 16;      // sequences at a time
  int64_t queue = 256;      // requests that wait
  int64_t longest = 32768;  // tokens of a sequence
  double seconds = 600;     // of a request, waiting included
};

struct DeskCounts {
  int64_t running = 0, waiting = 0;  // requests
  int64_t prompt_tokens = 0, generated_tokens = 0, steps = 0;
};

class Desk {
 public:
  // shared: step_tokens and recipe of all.
  Desk(const DeskLimits& limits, GenerateOptions shared);
  ~Desk();

  // Hands a request in; prompt_tokens: to be counted. Null: too many wait, or the desk is closed. Questions must be such as
  // check_prompts lets pass. Any thread may call it.
  std::shared_ptr<Answers> ask(std::vector<Question> questions, int64_t prompt_tokens);
  // Runs the model until `stop` says so and everything that was handed in has been answered. Of the main thread.
  void run(const std::function<bool()>& stop);
  bool closed() const;
  DeskCounts counts() const;

 private:
  struct Waiting {
    std::shared_ptr<Answers> answers;
    size_t choice = 0;
    Question question;
  };
  struct Working {
    std::shared_ptr<Answers> answers;
    size_t choice = 0;
    Question question;
    std::unique_ptr<AnswerText> text;
  };
  // Those that share batches: a base with what stands beside it, or one model alone.
  struct Group {
    const LoadedModel* loaded = nullptr;
    std::unique_ptr<Batcher> batcher;
    std::map<size_t, Working> working;  // by key
  };
  Group& group_of(const LoadedModel& loaded);
  size_t place_of(const LoadedModel& loaded);  // in the order of prompt models
  void admit();
  void begin(Group& group, size_t key, Waiting waiting);
  void drop();
  void step(Group& group);
  void take(Group& group, const NewToken& token);
  static AnswerPiece piece_of(Working& at, const NewToken& token);
  void end(const std::shared_ptr<Answers>& answers, AnswerPiece piece);
  bool busy() const;

  DeskLimits limits_;
  GenerateOptions shared_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<const LoadedModel*> loaded_models_;
  size_t next_key_ = 0;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable asked_;
  std::deque<Waiting> queue_;
  DeskCounts counts_;
  bool closed_ = false;
};

}  // namespace ravine
