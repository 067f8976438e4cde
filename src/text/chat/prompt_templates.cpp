#include "text/chat/prompt_templates.h"

#include <filesystem>

#include "base/byte_order_mark.h"
#include "base/error.h"
#include "base/text.h"
#include "files/compressed.h"

namespace ravine {

namespace {

struct Entry {
  const char *name, *text;
};

constexpr Entry kTemplates[] = {
    {"alpaca",
     "{{ bos_token }}{% if messages[0].role != 'system' %}{{ 'Below is an instruction that describes a task. Write a response that "
     "appropriately completes the request.\\n\\n' }}{% endif %}{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\\n\\n' }}"
     "{% elif m.role == 'assistant' %}{{ m.content + eos_token + '\\n\\n' }}{% else %}{{ '### Instruction:\\n' + m.content + "
     "'\\n\\n### Response:\\n' }}{% endif %}{% endfor %}"},
    {"chatml",
     "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"qwen",
     "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}"
     "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"default",
     "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\\n' }}{% elif m.role == 'assistant' %}"
     "{{ m.content + eos_token + '\\n' }}{% else %}{{ 'Human: ' + m.content + '\\nAssistant:' }}{% endif %}{% endfor %}"},
    {"empty",
     "{{ bos_token }}{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"},
    {"llama2",
     "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = '<<SYS>>\\n' + m.content + "
     "'\\n<</SYS>>\\n\\n' %}{% elif m.role == 'assistant' %}{{ ' ' + m.content + ' ' + eos_token }}{% else %}{{ bos_token + '[INST] ' + "
     "ns.system + m.content + ' [/INST]' }}{% set ns.system = '' %}{% endif %}{% endfor %}"},
    {"llama3",
     "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + ('ipython' if m.role == 'tool' else m.role) + '<|end_header_id|>\\n\\n' + "
     "m.content + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"mistral",
     "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content + '\\n\\n' %}"
     "{% elif m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}{% else %}{{ '[INST] ' + ns.system + m.content + ' [/INST]' }}"
     "{% set ns.system = '' %}{% endif %}{% endfor %}"},
    {"gemma",
     "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content + '\\n\\n' %}"
     "{% elif m.role == 'assistant' %}{{ '<start_of_turn>model\\n' + m.content + '<end_of_turn>\\n' }}{% else %}{{ '<start_of_turn>user\\n' + "
     "ns.system + m.content + '<end_of_turn>\\n' }}{% set ns.system = '' %}{% endif %}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"glm4",
     "[gMASK]<sop>{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|assistant|>\\n' + m.content }}{% else %}{{ '<|' + ('observation' "
     "if m.role == 'tool' else m.role) + '|>\\n' + m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}"
     "{% else %}{{ eos_token }}{% endif %}"},
    {"deepseek",
     "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\\n\\n' }}{% elif m.role == 'assistant' %}"
     "{{ ' ' + m.content + eos_token }}{% else %}{{ 'User: ' + m.content + '\\n\\nAssistant:' }}{% endif %}{% endfor %}"},
    {"vicuna",
     "{{ bos_token }}{% if messages[0].role != 'system' %}{{ 'A chat between a curious user and an artificial intelligence assistant. The assistant "
     "gives helpful, detailed, and polite answers to the user\\'s questions. ' }}{% endif %}{% for m in messages %}{% if m.role == 'system' %}"
     "{{ m.content + ' ' }}{% elif m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}{% else %}{{ 'USER: ' + m.content + ' ASSISTANT:' }}"
     "{% endif %}{% endfor %}"},
};

std::string piece(const Tokenizer& t, std::optional<int32_t> id) { return id ? t.id_to_piece(*id) : ""; }

}  // namespace

std::vector<std::string> prompt_template_names() {
  std::vector<std::string> names;
  for (const Entry& e : kTemplates) names.emplace_back(e.name);
  return names;
}

std::string prompt_template(const std::string& name) {
  for (const Entry& e : kTemplates)
    if (name == e.name) return e.text;
  return "";
}

void check_template_name(const std::string& wanted, const std::string& option_name) {
  std::error_code ignored;
  if (!prompt_template(wanted).empty() || std::filesystem::is_regular_file(wanted, ignored) ||
      std::filesystem::is_directory(wanted, ignored))
    return;
  const std::string near = nearest(wanted, prompt_template_names());
  throw UserError("no chat template '" + wanted + "'", option_name,
                  fmt::format("names are {}; or it is a file", fmt::join(prompt_template_names(), ", ")),
                  near.empty() ? "use one of them" : "did you mean '" + near + "'?");
}

std::string read_template_file(const std::string& path) {
  std::string source = read_whole(path, 4 << 20);
  drop_byte_order_mark(source);
  return source;
}

ChosenTemplate choose_template(const std::string& wanted, const std::string& tokenizer_path, const Tokenizer& t,
                               const std::string& option_name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  bool named = !prompt_template(wanted).empty();
  if (wanted.empty() || (!named && fs::is_directory(wanted, ignored))) {
    const std::string& folder = wanted.empty() ? tokenizer_path : wanted;
    if (fs::is_directory(folder, ignored))
      if (auto own = load_chat_template(folder)) return {std::move(own), ""};
    const bool flag = option_name.starts_with("--");
    throw UserError("the tokenizer has no chat template", folder.empty() ? option_name : folder,
                    "conversations become text by one",
                    fmt::format("{} {}chatml, or another of {}, or a file of Jinja", flag ? "add" : "set",
                                option_name + (flag ? " " : "="), fmt::join(prompt_template_names(), ", ")));
  }
  auto first = t.encode("a", true);
  bool adds_bos = t.special().bos && !first.empty() && first[0] == *t.special().bos;
  Json tokens{{"bos_token", adds_bos ? piece(t, t.special().bos) : ""}, {"eos_token", piece(t, t.special().eos)}};
  std::string source = prompt_template(wanted), where = "chat template " + wanted;
  if (!named) {
    check_template_name(wanted, option_name);
    source = read_template_file(wanted);
    where = wanted;
    tokens["bos_token"] = piece(t, t.special().bos);
  }
  // Other programs that render the exported template must not add a bos that Ravine does not add.
  if (!adds_bos && t.special().bos && source.find("bos_token") != std::string::npos && named)
    source = "{% set bos_token = '' %}" + source;
  auto chat = std::make_unique<ChatTemplate>(source, where, std::move(tokens));
  return {std::move(chat), source};
}

}  // namespace ravine
