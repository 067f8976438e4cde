// Tasks whose choices are texts: BoolQ, PIQA and HellaSwag.
#include <algorithm>

#include "base/error.h"
#include "data/handlers/packed.h"
#include "eval/python_text.h"
#include "eval/task.h"
#include "eval/task_files.h"
#include "eval/tasks/worked_examples.h"
#include "files/compressed.h"

namespace ravine {
namespace {

int64_t label_of(const Json& json, const std::string& key, int64_t choices, const std::string& where) {
  const auto it = json.find(key);
  int64_t label = -1;
  if (it != json.end() && it->is_number_integer()) label = it->get<int64_t>();
  if (it != json.end() && it->is_string() && it->get<std::string>().size() == 1) label = it->get<std::string>()[0] - '0';
  if (label < 0 || label >= choices)
    throw UserError(fmt::format("no '{}' of a choice", key), where, fmt::format("it is 0 to {}", choices - 1),
                    "use the split that has answers, or download the file again");
  return label;
}

// As lm_eval/tasks/hellaswag/utils.py: removes text in brackets.
std::string clean_wikihow(std::string_view text) {
  const std::string titles = replaced(std::string(strip(text)), " [title]", ". ");
  std::string out;
  for (std::string_view rest = titles; !rest.empty();) {
    std::string_view line = first_line(rest);  // a bracket that does not close on its line stays
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    for (size_t open, close; (open = line.find('[')) != line.npos && (close = line.find(']', open)) != line.npos;) {
      out += line.substr(0, open);
      line.remove_prefix(close + 1);
    }
    out += line;
    if (!rest.empty() || titles.ends_with('\n')) out += '\n';
  }
  return replaced(out, "  ", " ");
}

// Reads one number per line, for each item.
std::vector<int64_t> read_labels(const std::string& path) {
  std::vector<int64_t> labels;
  LineReader lines(path);
  while (const auto line = lines.next()) {
    const std::string_view text = strip(*line);
    if (text != "0" && text != "1")
      throw UserError("not a label", fmt::format("{}:{}", path, lines.line_number()), "a line is 0 or 1",
                      "download the file again");
    labels.push_back(text[0] - '0');
  }
  return labels;
}

}  // namespace

// Reads lines with passage, question and answer (google-research-datasets/boolean-questions), or "label" (SuperGLUE).
std::vector<Item> load_boolq(const std::string& data, const TaskOptions& o) {
  refuse_shots("boolq", o);
  std::vector<Item> items;
  for (const TaskFile& file :
       find_task_files(data, "boolq",
                       {"dev.jsonl", "val.jsonl", "data/validation-00000-of-00001.parquet",
                        "boolq/validation-00000-of-00001.parquet", "test/*.jsonl", "val/*.jsonl", "*.jsonl"})) {
    int64_t number = 0;
    for (const TaskRecord& r : read_task_records(file.path)) {
      if (o.limit > 0 && number >= o.limit) break;
      const char* key = r.json.contains("answer") ? "answer" : "label";
      const bool yes = r.json.contains(key) && r.json.at(key).is_number_integer() ? label_of(r.json, key, 2, r.where) == 1
                                                                                  : field<bool>(r.json, key, r.where);
      Item item{.id = fmt::format("{}/{}", file.subject, number++),
                .subject = file.subject,
                .prompt = fmt::format("{}\nQuestion: {}?\nAnswer:", field<std::string>(r.json, "passage", r.where),
                                      field<std::string>(r.json, "question", r.where)),
                .answer = yes ? "T" : "F"};
      if (o.protocol == Protocol::likelihood) item.choices = {"no", "yes"}, item.right = {yes ? 1 : 0};
      items.push_back(std::move(item));
    }
  }
  return items;
}

// Reads valid.jsonl with goal, sol1 and sol2, and valid-labels.lst next to it (yonatanbisk.com/piqa), or records with
// "label".
std::vector<Item> load_piqa(const std::string& data, const TaskOptions& o) {
  refuse_shots("piqa", o);
  const TaskFile file =
      find_task_files(data, "piqa", {"valid.jsonl", "dev.jsonl", "plain_text/validation-00000-of-00001.parquet"})[0];
  const std::vector<TaskFile> label_files = look_for_task_files(data, "piqa", {file.subject + "-labels.lst"});
  const std::vector<int64_t> labels = label_files.empty() ? std::vector<int64_t>() : read_labels(label_files[0].path);
  const std::vector<TaskRecord> records = read_task_records(file.path);
  if (!label_files.empty() && labels.size() != records.size())
    throw UserError(fmt::format("{} labels", labels.size()), label_files[0].path,
                    fmt::format("{} has {} items", file.path, records.size()), "download both files again");
  std::vector<Item> items;
  for (size_t i = 0; i < records.size() && (o.limit == 0 || static_cast<int64_t>(i) < o.limit); ++i) {
    const TaskRecord& r = records[i];
    if (label_files.empty() && !r.json.contains("label"))
      throw UserError("no labels", file.path, fmt::format("they stand in {}-labels.lst beside it", file.subject),
                      "put it there");
    items.push_back({.id = fmt::format("{}/{}", file.subject, i),
                     .subject = file.subject,
                     .prompt = fmt::format("Question: {}\nAnswer:", field<std::string>(r.json, "goal", r.where)),
                     .choices = {field<std::string>(r.json, "sol1", r.where), field<std::string>(r.json, "sol2", r.where)},
                     .right = {label_files.empty() ? label_of(r.json, "label", 2, r.where) : labels[i]}});
  }
  return items;
}

// Reads hellaswag_val.jsonl (rowanz/hellaswag).
std::vector<Item> load_hellaswag(const std::string& data, const TaskOptions& o) {
  refuse_shots("hellaswag", o);
  std::vector<Item> items;
  for (const TaskFile& file : find_task_files(data, "hellaswag", {"*_val.jsonl", "data/validation-00000-of-00001.parquet"})) {
    int64_t number = 0;
    for (const TaskRecord& r : read_task_records(file.path)) {
      if (o.limit > 0 && number >= o.limit) break;
      const std::string context =
          field<std::string>(r.json, "ctx_a", r.where) + " " + capitalise(text_or_nothing(r.json, "ctx_b", r.where));
      Item item{.id = fmt::format("{}/{}", file.subject, number++),
                .subject = file.subject,
                .prompt = clean_wikihow(field<std::string>(r.json, "activity_label", r.where) + ": " + context)};
      for (const Json& ending : array_field(r.json, "endings", r.where)) {
        if (!ending.is_string())
          throw UserError("an ending that is no text", r.where, "endings are texts", "download the file again");
        item.choices.push_back(clean_wikihow(ending.get<std::string>()));
      }
      item.right = {label_of(r.json, "label", static_cast<int64_t>(item.choices.size()), r.where)};
      items.push_back(std::move(item));
    }
  }
  return items;
}

}  // namespace ravine
