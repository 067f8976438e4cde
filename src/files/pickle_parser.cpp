#include "files/pickle.h"

#include <bit>
#include <charconv>
#include <unordered_map>

namespace ravine {

class PickleParser {
 public:
  PickleParser(Pickle& out, std::span<const std::byte> data)
      : out_(out), data_(reinterpret_cast<const char*>(data.data()), data.size()) {}

  void run() {
    none_ = add({});
    true_ = add_integer(Pickle::Kind::boolean, 1);
    false_ = add_integer(Pickle::Kind::boolean, 0);
    while (!step(static_cast<unsigned char>(take(1)[0]))) {
    }
    out_.size_ = at_;
  }

 private:
  using Ref = Pickle::Ref;
  using Kind = Pickle::Kind;

  [[noreturn]] void refuse(const std::string& rule) const {
    throw UserError("bad pickle", fmt::format("{}: byte {} of the pickle", out_.where_, op_at_), rule, "save the file again");
  }

  std::string_view take(uint64_t count) {
    if (count > data_.size() - at_) refuse(fmt::format("{} more bytes are needed, it holds {}", count, data_.size() - at_));
    const std::string_view s = data_.substr(at_, count);
    at_ += count;
    return s;
  }
  uint64_t number(int width) {
    const std::string_view s = take(static_cast<uint64_t>(width));
    uint64_t v = 0;
    for (int i = width - 1; i >= 0; --i) v = (v << 8) | static_cast<unsigned char>(s[static_cast<size_t>(i)]);
    return v;
  }
  std::string_view line() {
    const size_t end = data_.find('\n', at_);
    if (end == std::string_view::npos) refuse("a line without an end");
    const std::string_view s = data_.substr(at_, end - at_);
    at_ = end + 1;
    return s;
  }

  Ref add(Pickle::Node node) {
    if (out_.nodes_.size() >= Pickle::kMaxValues) refuse(fmt::format("at most {} values are read", Pickle::kMaxValues));
    out_.nodes_.push_back(std::move(node));
    return static_cast<Ref>(out_.nodes_.size() - 1);
  }
  Ref add_integer(Kind kind, int64_t v) {
    Pickle::Node n;
    n.kind = kind;
    n.integer = v;
    return add(std::move(n));
  }
  Ref add_text(Kind kind, std::string_view text, std::string_view module = {}) {
    Pickle::Node n;
    n.kind = kind;
    n.text = text;
    n.module = module;
    return add(std::move(n));
  }
  Ref add_items(Kind kind, std::vector<Ref> items) {
    Pickle::Node n;
    n.kind = kind;
    n.items = std::move(items);
    return add(std::move(n));
  }
  Ref add_real(double v) {
    Pickle::Node n;
    n.kind = Kind::real;
    n.real = v;
    return add(std::move(n));
  }

  void push(Ref v) {
    if (stack_.size() >= 2 * Pickle::kMaxValues) refuse("its stack is too deep");
    stack_.push_back(v);
  }
  Ref pop() {
    if (stack_.size() <= floor()) refuse("it takes a value from an empty stack");
    const Ref v = stack_.back();
    stack_.pop_back();
    return v;
  }
  Ref top() const {
    if (stack_.size() <= floor()) refuse("it looks at an empty stack");
    return stack_.back();
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Ref> pop_mark() {
    if (marks_.empty()) refuse("it takes values down to a mark that is not there");
    const size_t from = marks_.back();
    marks_.pop_back();
    std::vector<Ref> v(stack_.begin() + static_cast<ptrdiff_t>(from), stack_.end());
    stack_.resize(from);
    return v;
  }

  void put(uint64_t key, Ref v) {
    memo_[key] = v;
    if (memo_.size() > Pickle::kMaxValues) refuse(fmt::format("at most {} values are memorised", Pickle::kMaxValues));
  }
  void get(uint64_t key) {
    auto it = memo_.find(key);
    if (it == memo_.end()) refuse(fmt::format("it fetches memo {}, which was not stored", key));
    push(it->second);
  }

  void extend(Ref target, const std::vector<Ref>& values, bool pairs) {
    Pickle::Node& n = out_.nodes_[target];
    if (pairs && values.size() % 2 != 0) refuse("a dict gets keys with values");
    if (pairs ? n.kind != Kind::dict && n.kind != Kind::object
              : n.kind != Kind::list && n.kind != Kind::set && n.kind != Kind::object)
      refuse(fmt::format("it puts values into {}", out_.describe(target)));
    n.items.insert(n.items.end(), values.begin(), values.end());
  }

  // Stores a call as a value. Only constructors of plain containers become containers.
  void call(Ref callable, Ref arguments) {
    const std::string name = out_.global(callable);
    const bool plain = out_.kind(arguments) == Kind::tuple;
    const std::vector<Ref>* given = plain ? &out_.items(arguments) : nullptr;
    if (plain && given->empty() && (name == "collections.OrderedDict" || name == "builtins.dict"))
      return push(add_items(Kind::dict, {}));
    if (plain && given->size() <= 1 && name == "collections.defaultdict") return push(add_items(Kind::dict, {}));
    if (plain && given->size() == 1 && name == "torch.Size" && out_.kind((*given)[0]) == Kind::tuple) return push((*given)[0]);
    push(add_items(Kind::object, {callable, arguments, none_}));
  }

  void decimal(std::string_view s) {
    int64_t v = 0;
    if (s.ends_with('L')) s.remove_suffix(1);
    auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (code == std::errc::result_out_of_range) return push(add_integer(Kind::big, 0));
    if (code != std::errc{} || end != s.data() + s.size()) refuse("a number that is none");
    push(add_integer(Kind::integer, v));
  }
  uint64_t index(std::string_view s) {
    uint64_t v = 0;
    auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (code != std::errc{} || end != s.data() + s.size()) refuse("a memo number that is none");
    return v;
  }
  void little_endian(std::string_view s) {
    if (s.size() > 8) return push(add_integer(Kind::big, 0));
    uint64_t v = !s.empty() && (s.back() & 0x80) ? ~uint64_t{0} : 0;
    for (size_t i = s.size(); i-- > 0;) v = (v << 8) | static_cast<unsigned char>(s[i]);
    push(add_integer(Kind::integer, static_cast<int64_t>(v)));
  }

  bool step(unsigned char op);  // true at the end

  // Opcodes by subject. Each function runs the opcode and returns true, or returns false if the opcode is not its own.
  bool number_or_constant(unsigned char op);
  bool text_or_bytes(unsigned char op);
  bool container(unsigned char op);
  bool memo(unsigned char op);
  bool import_or_call(unsigned char op);  // stored, never executed

  Pickle& out_;
  std::string_view data_;
  size_t at_ = 0, op_at_ = 0;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Ref> memo_;
  Ref none_ = 0, true_ = 0, false_ = 0;
};

bool PickleParser::number_or_constant(unsigned char op) {
  switch (op) {
    case 'N':
      push(none_);
      return true;
    case 0x88:
      push(true_);
      return true;
    case 0x89:
      push(false_);
      return true;
    case 'I': {
      const std::string_view s = line();
      if (s == "00" || s == "01")
        push(s == "01" ? true_ : false_);
      else
        decimal(s);
      return true;
    }
    case 'L':
      decimal(line());
      return true;
    case 'J':
      push(add_integer(Kind::integer, static_cast<int32_t>(number(4))));
      return true;
    case 'K':
      push(add_integer(Kind::integer, static_cast<int64_t>(number(1))));
      return true;
    case 'M':
      push(add_integer(Kind::integer, static_cast<int64_t>(number(2))));
      return true;
    case 0x8a:
      little_endian(take(number(1)));
      return true;
    case 0x8b:
      little_endian(take(number(4)));
      return true;
    case 'F': {
      const std::string_view s = line();
      double v = 0;
      auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), v);
      if (code == std::errc::invalid_argument || end != s.data() + s.size()) refuse("a number that is none");
      push(add_real(v));
      return true;
    }
    case 'G': {
      const std::string_view s = take(8);
      uint64_t bits = 0;
      for (char c : s) bits = (bits << 8) | static_cast<unsigned char>(c);
      push(add_real(std::bit_cast<double>(bits)));
      return true;
    }
    default:
      return false;
  }
}

bool PickleParser::text_or_bytes(unsigned char op) {
  switch (op) {
    case 'S': {
      std::string_view s = line();
      if (s.size() < 2 || s.front() != s.back() || (s.front() != '\'' && s.front() != '"')) refuse("a string without quotes");
      push(add_text(Kind::text, s.substr(1, s.size() - 2)));  // escapes are not decoded
      return true;
    }
    case 'V':
      push(add_text(Kind::text, line()));
      return true;
    case 'T':
      push(add_text(Kind::text, take(number(4))));
      return true;
    case 'U':
      push(add_text(Kind::text, take(number(1))));
      return true;
    case 'X':
      push(add_text(Kind::text, take(number(4))));
      return true;
    case 0x8c:
      push(add_text(Kind::text, take(number(1))));
      return true;
    case 0x8d:
      push(add_text(Kind::text, take(number(8))));
      return true;
    case 'B':
      push(add_text(Kind::bytes, take(number(4))));
      return true;
    case 'C':
      push(add_text(Kind::bytes, take(number(1))));
      return true;
    case 0x8e:
    case 0x96:
      push(add_text(Kind::bytes, take(number(8))));
      return true;
    default:
      return false;
  }
}

bool PickleParser::container(unsigned char op) {
  switch (op) {
    case '(':
      marks_.push_back(stack_.size());
      if (marks_.size() > Pickle::kMaxValues) refuse("too many marks");
      return true;
    case '1':
      pop_mark();
      return true;
    case '0':
      if (stack_.size() == floor() && !marks_.empty())
        marks_.pop_back();
      else
        pop();
      return true;
    case '2':
      push(top());
      return true;
    case ')':
      push(add_items(Kind::tuple, {}));
      return true;
    case 't':
      push(add_items(Kind::tuple, pop_mark()));
      return true;
    case 0x85:
    case 0x86:
    case 0x87: {
      std::vector<Ref> v(static_cast<size_t>(op - 0x84));
      for (size_t i = v.size(); i-- > 0;) v[i] = pop();
      push(add_items(Kind::tuple, std::move(v)));
      return true;
    }
    case ']':
      push(add_items(Kind::list, {}));
      return true;
    case 'l':
      push(add_items(Kind::list, pop_mark()));
      return true;
    case '}':
      push(add_items(Kind::dict, {}));
      return true;
    case 'd': {
      const Ref d = add_items(Kind::dict, {});
      extend(d, pop_mark(), true);
      push(d);
      return true;
    }
    case 0x8f:
      push(add_items(Kind::set, {}));
      return true;
    case 0x91:
      push(add_items(Kind::set, pop_mark()));
      return true;
    case 'a': {
      const Ref v = pop();
      extend(top(), {v}, false);
      return true;
    }
    case 'e':
    case 0x90: {
      const std::vector<Ref> v = pop_mark();
      extend(top(), v, false);
      return true;
    }
    case 's': {
      const Ref v = pop(), k = pop();
      extend(top(), {k, v}, true);
      return true;
    }
    case 'u': {
      const std::vector<Ref> v = pop_mark();
      extend(top(), v, true);
      return true;
    }
    default:
      return false;
  }
}

bool PickleParser::memo(unsigned char op) {
  switch (op) {
    case 'p':
      put(index(line()), top());
      return true;
    case 'q':
      put(number(1), top());
      return true;
    case 'r':
      put(number(4), top());
      return true;
    case 0x94:
      put(memo_.size(), top());
      return true;
    case 'g':
      get(index(line()));
      return true;
    case 'h':
      get(number(1));
      return true;
    case 'j':
      get(number(4));
      return true;
    default:
      return false;
  }
}

bool PickleParser::import_or_call(unsigned char op) {
  switch (op) {
    case 'c': {
      const std::string_view module = line(), name = line();
      push(add_text(Kind::global, name, module));
      return true;
    }
    case 0x93: {
      const Ref name = pop(), module = pop();
      if (out_.kind(name) != Kind::text || out_.kind(module) != Kind::text) refuse("a global is named by two strings");
      const std::string_view n = out_.nodes_[name].text, m = out_.nodes_[module].text;
      push(add_text(Kind::global, n, m));
      return true;
    }
    case 'R':
    case 0x81: {
      const Ref arguments = pop(), callable = pop();
      call(callable, arguments);
      return true;
    }
    case 0x92: {
      pop();  // keywords
      const Ref arguments = pop(), callable = pop();
      call(callable, arguments);
      return true;
    }
    case 'i': {
      const std::string_view module = line(), name = line();
      const Ref arguments = add_items(Kind::tuple, pop_mark());
      call(add_text(Kind::global, name, module), arguments);
      return true;
    }
    case 'o': {
      std::vector<Ref> v = pop_mark();
      if (v.empty()) refuse("an object without a class");
      const Ref callable = v.front();
      v.erase(v.begin());
      call(callable, add_items(Kind::tuple, std::move(v)));
      return true;
    }
    case 'b': {
      const Ref state = pop();
      Pickle::Node& n = out_.nodes_[top()];
      // The state of a plain container (_metadata of a state dict) is dropped.
      if (n.kind == Kind::object) n.items[2] = state;
      return true;
    }
    case 'P': {
      const Ref id = add_text(Kind::text, line());
      push(add_items(Kind::persistent, {id}));
      return true;
    }
    case 'Q': {
      const Ref id = pop();
      push(add_items(Kind::persistent, {id}));
      return true;
    }
    case 0x82:
    case 0x83:
    case 0x84: {  // a global registered by number
      number(op == 0x82 ? 1 : op == 0x83 ? 2 : 4);
      push(add_text(Kind::global, "extension", "copyreg"));
      return true;
    }
    default:
      return false;
  }
}

bool PickleParser::step(unsigned char op) {
  op_at_ = at_ - 1;
  switch (op) {
    case 0x80:  // PROTO
      if (const uint64_t v = number(1); v > 5) refuse(fmt::format("protocols 0 to 5 are read, it says {}", v));
      return false;
    case 0x95:
      number(8);
      return false;  // FRAME: a hint for buffering
    case '.':
      out_.root_ = pop();
      if (!stack_.empty() || !marks_.empty()) refuse("it ends with values left on its stack");
      return true;
    default:
      if (!number_or_constant(op) && !text_or_bytes(op) && !container(op) && !memo(op) && !import_or_call(op))
        refuse(fmt::format("opcode 0x{:02x} is not known", op));
      return false;
  }
}

Pickle::Pickle(std::span<const std::byte> data, std::string where) : where_(std::move(where)) {
  PickleParser(*this, data).run();
}

}  // namespace ravine
