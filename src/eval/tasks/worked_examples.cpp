#include "eval/tasks/worked_examples.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "eval/python_text.h"

namespace ravine {

WorkedExamples::WorkedExamples(const std::string& data, const std::string& task, const std::vector<std::string>& patterns,
                               bool header, int64_t shots)
    : data_(data), task_(task), patterns_(patterns), header_(header), shots_(shots) {
  if (shots > 0) files_ = look_for_task_files(data, task, patterns);
  // Parquet files hold all subjects.
  for (const TaskFile& f : files_)
    if (f.path.ends_with(".parquet"))
      for (ChoiceQuestion& q : read_choice_questions(f, header_)) {
        std::vector<ChoiceQuestion>& all = of_[q.subject];
        if (static_cast<int64_t>(all.size()) < shots_) all.push_back(std::move(q));
      }
}

const std::vector<ChoiceQuestion>& WorkedExamples::of(const std::string& subject) {
  std::vector<ChoiceQuestion>& all = of_[subject];
  if (shots_ == 0 || !all.empty()) return all;
  const TaskFile* file = file_of(files_, subject);
  if (!file)
    throw UserError(fmt::format("no worked examples of {}", subject), data_,
                    fmt::format("{} shows {} of them; looked for {}", task_, shots_, fmt::join(patterns_, ", ")),
                    "unpack the dev files too, or ask without examples by --shots 0");
  all = read_choice_questions(*file, header_);
  if (static_cast<int64_t>(all.size()) < shots_)
    throw UserError(fmt::format("{} worked examples", all.size()), file->path, fmt::format("--shots asks for {}", shots_),
                    fmt::format("use --shots {} or less", all.size()));
  all.resize(static_cast<size_t>(shots_));
  return all;
}

void word_choice(Item& item, const ChoiceQuestion& q, WorkedExamples& examples, const TaskOptions& o, const ChoiceWording& w) {
  if (o.protocol == Protocol::likelihood) {
    item.prompt = w.ranked_heading;
    for (const ChoiceQuestion& e : examples.of(q.subject))
      item.prompt += choice_block(e, strip(e.question), w.ranked_answer_prefix) + " " + e.answer + "\n\n";
    item.prompt += choice_block(q, strip(q.question), w.ranked_answer_prefix);
    rank_letters(item, q);
    return;
  }
  if (o.shots.value_or(5) > 0) {
    if (const auto* given = o.templates.find(w.task, q.subject)) {
      item.prompt = given->at(0);
    } else {
      item.prompt = w.heading;
      const std::vector<ChoiceQuestion>& shown = examples.of(q.subject);
      for (size_t i = 0; i < shown.size(); ++i)
        item.prompt +=
            (i > 0 ? w.gap : "") + choice_block(shown[i], w.lead + shown[i].question, w.shown_answer_prefix) + shown[i].answer;
    }
    item.prompt += "\n\n";
  }
  item.prompt += choice_block(q, w.lead + q.question, w.answer_prefix);
}

bool shows_examples(const std::string& task, const TaskOptions& options) {
  if (options.shots && *options.shots > 0)
    throw UserError(fmt::format("--shots {} for {}", *options.shots, task), "--shots",
                    "its worked examples are one text, which is not cut",
                    "leave out --shots, give a shorter text by --template, or use --shots 0");
  return !options.shots;
}

void refuse_shots(const std::string& task, const TaskOptions& options) {
  if (options.shots.value_or(0) > 0)
    throw UserError(fmt::format("--shots {} for {}", *options.shots, task), "--shots", "its data hold no worked examples",
                    "leave it out, or use --shots 0");
}

}  // namespace ravine
