#include "serve/desk.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace ravine {
namespace {

AnswerPiece failure_of(size_t choice, const std::string& error) {
  return {.choice = choice, .text = {}, .tokens = {}, .finish = {}, .error = error, .late = false};
}

}  // namespace

std::optional<AnswerPiece> Answers::wait(double seconds) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !pieces_.empty() || open_ == 0; });
  if (pieces_.empty()) return {};
  AnswerPiece piece = std::move(pieces_.front());
  pieces_.pop_front();
  return piece;
}

bool Answers::over() const {
  const std::lock_guard lock(mutex_);
  return open_ == 0 && pieces_.empty();
}

void Answers::push(AnswerPiece piece) {
  const std::lock_guard lock(mutex_);
  if (open_ == 0) return;
  if (piece.finish) --open_;
  if (!piece.error.empty()) open_ = 0;
  pieces_.push_back(std::move(piece));
  news_.notify_one();
}

Desk::Desk(const DeskLimits& limits, GenerateOptions shared) : limits_(limits), shared_(std::move(shared)) {}
Desk::~Desk() = default;

std::shared_ptr<Answers> Desk::submit(std::vector<Question> questions, int64_t prompt_tokens) {
  auto answers = std::make_shared<Answers>(questions.size());
  answers->until_ = seconds_now() + limits_.seconds;
  const std::lock_guard lock(mutex_);
  if (closed_ || counts_.waiting >= limits_.queue) return nullptr;
  for (size_t i = 0; i < questions.size(); ++i) queue_.push_back({answers, i, std::move(questions[i])});
  ++counts_.waiting;
  counts_.prompt_tokens += prompt_tokens;
  queue_filled_.notify_one();
  return answers;
}

bool Desk::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

DeskCounts Desk::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool Desk::busy() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& g) { return !g->working.empty(); });
}

void Desk::run(const std::function<bool()>& stop) {
  constexpr auto kLook = std::chrono::milliseconds(50);  // interval of calls of stop() while there are no requests
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!busy() && queue_.empty()) queue_filled_.wait_for(lock, kLook, [&] { return !queue_.empty(); });
      if (stop()) closed_ = true;
      if (closed_ && queue_.empty() && !busy()) return;
    }
    drop();
    admit();
    for (const auto& group : groups_)
      if (!group->working.empty()) step(*group);
  }
}

size_t Desk::loaded_index(const LoadedModel& loaded) {
  const auto found = std::find(loaded_models_.begin(), loaded_models_.end(), &loaded);
  if (found == loaded_models_.end()) return loaded_models_.push_back(&loaded), loaded_models_.size() - 1;
  return static_cast<size_t>(found - loaded_models_.begin());
}

Desk::Group& Desk::group_of(const LoadedModel& loaded) {
  const LoadedModel* base = loaded.base && loaded.adapters ? loaded.base : &loaded;
  for (const auto& group : groups_)
    if (group->loaded == base) return *group;
  groups_.push_back(std::make_unique<Group>());
  groups_.back()->loaded = base;
  return *groups_.back();
}

// Gives free places to the first waiting questions.
void Desk::admit() {
  while (true) {
    int64_t taken = 0;
    for (const auto& group : groups_) taken += static_cast<int64_t>(group->working.size());
    Waiting w;
    {
      const std::lock_guard lock(mutex_);
      if (taken >= limits_.max_sequences || queue_.empty()) return;
      w = std::move(queue_.front());
      queue_.pop_front();
      if (!std::exchange(w.answers->begun_, true)) --counts_.waiting, ++counts_.running;
    }
    const std::shared_ptr<Answers> answers = w.answers;
    const size_t choice = w.choice, key = next_key_++;
    Group& group = group_of(*w.question.prompt_model.loaded);
    try {
      begin(group, key, std::move(w));
    } catch (const std::exception& e) {  // for example if the memory is not sufficient
      group.working.erase(key);
      end(answers, failure_of(choice, e.what()));
    }
  }
}

void Desk::begin(Group& group, size_t key, Waiting w) {
  Working& at = group.working.emplace(key, Working{w.answers, w.choice, std::move(w.question), nullptr}).first->second;
  const Question& q = at.question;
  at.text = std::make_unique<AnswerText>(*q.tokenizer, q.prompt, q.stops);
  if (!group.batcher) group.batcher = std::make_unique<Batcher>(*group.loaded, limits_.max_sequences, limits_.longest, shared_);
  group.batcher->admit({key, &q.prompt_model, loaded_index(*q.prompt_model.loaded), q.number, q.prompt_name, q.prompt});
}

// Adds a piece to the answers. A request whose answers are all complete leaves the counts.
void Desk::end(const std::shared_ptr<Answers>& answers, AnswerPiece piece) {
  answers->push(std::move(piece));
  bool all = false;
  {
    const std::lock_guard lock(answers->mutex_);
    all = answers->open_ == 0;
  }
  if (!all || std::exchange(answers->counted_, true)) return;
  const std::lock_guard lock(mutex_);
  --(answers->begun_ ? counts_.running : counts_.waiting);
}

// Removes requests whose client is gone or whose time is over, and frees their places.
void Desk::drop() {
  const double now = seconds_now();
  auto over = [&](const Answers& a) { return a.left_ || a.counted_ || now > a.until_; };
  std::vector<std::shared_ptr<Answers>> gone;
  {
    const std::lock_guard lock(mutex_);
    for (const Waiting& w : queue_)
      if (over(*w.answers)) gone.push_back(w.answers);
    std::erase_if(queue_, [&](const Waiting& w) { return over(*w.answers); });
  }
  for (const auto& group : groups_)
    for (auto at = group->working.begin(); at != group->working.end();) {
      if (!over(*at->second.answers)) {
        ++at;
        continue;
      }
      gone.push_back(at->second.answers);
      group->batcher->remove(at->first);
      at = group->working.erase(at);
    }
  for (const auto& answers : gone)
    end(answers,
        {.choice = 0, .text = {}, .tokens = {}, .finish = {}, .error = "the time of the request is over", .late = true});
}

void Desk::step(Group& group) {
  std::vector<NewToken> tokens;
  try {
    tokens = group.batcher->step();
  } catch (const std::exception& e) {  // of the whole batch: all its sequences fail, and the next batch begins empty
    const std::map<size_t, Working> failed = std::exchange(group.working, {});
    group.batcher.reset();
    for (const auto& [key, w] : failed) end(w.answers, failure_of(w.choice, e.what()));
  }
  {
    const std::lock_guard lock(mutex_);
    ++counts_.steps;
    for (const NewToken& token : tokens) counts_.generated_tokens += !token.failure;
  }
  for (const NewToken& token : tokens) take(group, token);
}

// Passes a token to its answers. An exception ends this answer only.
void Desk::take(Group& group, const NewToken& token) {
  const auto at = group.working.find(token.key);
  if (at == group.working.end()) return;
  const std::shared_ptr<Answers> answers = at->second.answers;
  AnswerPiece piece;
  bool gone = token.finish.has_value();
  try {
    if (token.failure) std::rethrow_exception(token.failure);
    piece = piece_of(at->second, token);
    if (piece.finish && !std::exchange(gone, true)) group.batcher->remove(token.key);
  } catch (const std::exception& e) {
    piece = failure_of(at->second.choice, e.what());
    if (!gone) group.batcher->remove(token.key);
  }
  if (piece.finish || !piece.error.empty()) group.working.erase(at);
  end(answers, std::move(piece));
}

AnswerPiece Desk::piece_of(Working& w, const NewToken& token) {
  AnswerPiece piece{.choice = w.choice,
                    .text = w.text->next(token.id),
                    .tokens = {token},
                    .finish = token.finish,
                    .error = {},
                    .late = false};
  if (w.text->stopped()) piece.finish = Finish::stop;
  if (piece.finish) piece.text += w.text->finish();
  return piece;
}

}  // namespace ravine
