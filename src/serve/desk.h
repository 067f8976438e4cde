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

// One text to generate for a request.
struct Question {
  PromptModel prompt_model;
  uint64_t number = 0;  // with options.seed the key of its random numbers
  std::string place;    // its name in errors: "prompt 2 of the request"
  std::vector<int32_t> prompt;
  const Tokenizer* tokenizer = nullptr;
  std::vector<std::string> stops;
};

// The output of one choice since its previous piece.
struct AnswerPiece {
  size_t choice = 0;  // index of the question in the request
  std::string text;
  std::vector<NewToken> tokens;
  std::optional<Finish> finish;  // set in the last piece of the choice
  std::string error;             // not empty: ends this request, and no other
  bool late = false;             // the error is that the request has run out of time
};

// The pieces of the answers to one request. The desk adds them; one thread of the server waits for them.
class Answers {
 public:
  explicit Answers(size_t choices) : open_(choices) {}
  // Returns the next piece. Returns nothing after `seconds`, or when all pieces have been returned (over()).
  std::optional<AnswerPiece> wait(double seconds);
  bool over() const;              // no further piece follows
  void leave() { left_ = true; }  // the client is gone: the desk frees the places of this request

 private:
  friend class Desk;
  void say(AnswerPiece piece);
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<AnswerPiece> pieces_;
  size_t open_;  // choices that are not complete
  std::atomic<bool> left_{false};
  // Used by the desk. begun_: a choice has a place in the batch; counted_: the request has left the counts.
  bool begun_ = false, counted_ = false;
  double until_ = 0;  // time at which the request fails
};

struct DeskLimits {
  int64_t places = 16;      // sequences at a time
  int64_t queue = 256;      // waiting requests
  int64_t longest = 32768;  // tokens of a sequence
  double seconds = 600;     // largest duration of a request, waiting included
};

struct DeskCounts {
  int64_t running = 0, waiting = 0;  // requests
  int64_t prompt_tokens = 0, generated_tokens = 0, steps = 0;
};

// Queue of requests, and the thread that generates their answers.
class Desk {
 public:
  // shared: step_tokens and recipe of all requests.
  Desk(const DeskLimits& limits, GenerateOptions shared);
  ~Desk();

  // Adds a request; any thread may call it. Questions must have passed check_prompts. prompt_tokens: added to the
  // counts. Returns null if the queue is full or the desk is closed.
  std::shared_ptr<Answers> ask(std::vector<Question> questions, int64_t prompt_tokens);
  // Runs the model until stop() returns true and all requests are answered. The main thread calls it.
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
  size_t place_of(const LoadedModel& loaded);  // index in loaded_models_: the order of prompt models in a batch
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
  std::condition_variable asked_;
  std::deque<Waiting> queue_;
  DeskCounts counts_;
  bool closed_ = false;
};

}  // namespace ravine
