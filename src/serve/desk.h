// A desk takes requests from many threads; one thread runs the model for all of them. Sequences join the batch when a
// place is free. They leave it when they end, or when their client is gone.
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

// One text that the model generates for a request: a choice of its reply.
struct Question {
  PromptModel prompt_model;
  uint64_t number = 0;      // with the seed of the options, the key of this text's random numbers
  std::string prompt_name;  // its name in errors: "prompt 2 of the request"
  std::vector<int32_t> prompt;
  const Tokenizer* tokenizer = nullptr;
  std::vector<std::string> stops;
};

// The new output of one choice of a request: text and tokens since its previous piece.
struct AnswerPiece {
  size_t choice = 0;  // index of the question in the request
  std::string text;
  std::vector<NewToken> tokens;
  std::optional<Finish> finish;  // set in the last piece of the choice
  std::string error;             // not empty: the request has failed with this message, in all its choices
  bool late = false;             // true: the request has failed because its time is over
};

// The pieces of the answers to one request. The desk adds them; one thread of the server waits for them.
class Answers {
 public:
  explicit Answers(size_t choices) : open_(choices) {}
  // Waits for the next piece and returns it. Returns nothing if there is none within `seconds`, or if all pieces have
  // been returned (over()).
  std::optional<AnswerPiece> wait(double seconds);
  bool over() const;              // true if all pieces have been returned
  void leave() { left_ = true; }  // tells the desk that the client is gone: it ends the request and frees its places

 private:
  friend class Desk;
  void push(AnswerPiece piece);
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<AnswerPiece> pieces_;
  size_t open_;  // choices that are not complete
  std::atomic<bool> left_{false};
  // Used by the desk. begun_: a choice has a place in the batch; counted_: the request has left the counts.
  bool begun_ = false, counted_ = false;
  double until_ = 0;  // time at which the request fails
};

// The limits of a Desk.
struct DeskLimits {
  int64_t max_sequences = 16;  // largest number of sequences that are generated at the same time
  int64_t queue = 256;         // largest number of waiting requests
  int64_t longest = 32768;     // largest number of tokens of a sequence, prompt included
  double seconds = 600;        // largest duration of a request in seconds, waiting included
};

// The counts of a Desk, for /metrics.
struct DeskCounts {
  int64_t running = 0, waiting = 0;  // numbers of requests now; the other counts are totals since the start
  int64_t prompt_tokens = 0, generated_tokens = 0, steps = 0;
};

// Generates the answers to requests of many threads. One thread, which calls run(), runs the model for all of them.
class Desk {
 public:
  // shared: the options that are the same for all requests; step_tokens and recipe are used.
  Desk(const DeskLimits& limits, GenerateOptions shared);
  ~Desk();

  // Adds a request, and returns the object from which its answers are read. Any thread may call it. Questions must have
  // passed check_prompts. prompt_tokens: its number of prompt tokens, for the counts. Returns null if the queue is full
  // or the desk is closed.
  std::shared_ptr<Answers> submit(std::vector<Question> questions, int64_t prompt_tokens);
  // Answers requests. When stop() has returned true, the desk is closed, and run() returns after the last request is
  // answered. The main thread calls it.
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
  // Models that share batches: a base with the models loaded beside it, or one model alone.
  struct Group {
    const LoadedModel* loaded = nullptr;
    std::unique_ptr<Batcher> batcher;
    std::map<size_t, Working> working;  // by key of the sequence
  };
  Group& group_of(const LoadedModel& loaded);
  size_t loaded_index(const LoadedModel& loaded);  // index in loaded_models_: the order of prompt models in a batch
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
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable queue_filled_;
  std::deque<Waiting> queue_;
  DeskCounts counts_;
  bool closed_ = false;
};

}  // namespace ravine
