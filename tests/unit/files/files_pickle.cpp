#include "files/pickle.h"

#include <gtest/gtest.h>

#include <deque>

#include "tests/unit/files_temporary.h"

using namespace ravine;
using namespace std::string_literals;

namespace test_files_pickle {

// The text must live as long as the values that point into it.
Pickle parse(const std::string& text) {
  static std::deque<std::string> texts;
  texts.push_back(text);
  return Pickle(std::as_bytes(std::span(texts.back())), "file.bin");
}
std::string refusal(const std::string& text) {
  return message_of<UserError>([&] { parse(text); });
}

TEST(Pickle, PlainValues) {
  // {'a': [1, -2, 2.5, None, True, 'x', (3,)], 'big': 1 << 70}
  const std::string text =
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "a]q\x01(K\x01J\xfe\xff\xff\xffG\x40\x04\0\0\0\0\0\0N\x88X\x01\0\0\0xK\x03\x85"
      "eX\x03\0\0\0big\x8a\x09\0\0\0\0\0\0\0\0\x40u."s;
  const Pickle p = parse(text);
  EXPECT_EQ(p.size(), text.size());
  const auto a = p.find(p.root(), "a");
  ASSERT_TRUE(a && p.kind(*a) == Pickle::Kind::list);
  const auto& v = p.items(*a);
  ASSERT_EQ(v.size(), 7u);
  EXPECT_EQ(p.integer(v[0]), 1);
  EXPECT_EQ(p.integer(v[1]), -2);
  EXPECT_EQ(p.real(v[2]), 2.5);
  EXPECT_TRUE(p.is_none(v[3]));
  EXPECT_EQ(p.boolean(v[4]), true);
  EXPECT_EQ(p.text(v[5]), "x");
  EXPECT_EQ(p.kind(v[6]), Pickle::Kind::tuple);
  EXPECT_EQ(p.kind(*p.find(p.root(), "big")), Pickle::Kind::big);
  EXPECT_FALSE(p.find(p.root(), "b"));
}

TEST(Pickle, NamespacesAndOrderedDictsAreDicts) {
  const Pickle p = parse(
      "\x80\x02"
      "cargparse\nNamespace\n)\x81}X\x01\0\0\0nK\x05sb."s);
  EXPECT_EQ(p.integer(*p.find(p.root(), "n")), 5);
  const Pickle q = parse("ccollections\nOrderedDict\n)RX\x01\0\0\0nK\x05s."s);
  EXPECT_EQ(q.integer(*q.find(q.root(), "n")), 5);
}

// Real attacks: each is parsed to a value that names the callable, and nothing is called.
TEST(Pickle, NothingIsExecuted) {
  TemporaryFolder folder;
  const std::string file = folder / "owned";
  const std::string shell = "touch " + file;
  const struct {
    std::string text;
    const char* expected;
  } attacks[] = {
      {"cos\nsystem\n(S'" + shell + "'\ntR.", "os.system(...)"},
      {"cposix\nsystem\nX" + std::string{static_cast<char>(shell.size()), 0, 0, 0} + shell + "\x85R.", "posix.system(...)"},
      {"c__builtin__\neval\n(S'__import__(\"os\").system(\"" + shell + "\")'\ntR.", "builtins.eval(...)"},
      {"(S'" + shell + "'\nios\nsystem\n.", "os.system(...)"},
      {"(cos\nsystem\nS'" + shell + "'\no.", "os.system(...)"},
      // A call whose callable is the result of a call: getattr(__import__('os'), 'system')(cmd).
      {"cbuiltins\ngetattr\n(cbuiltins\n__import__\n(S'os'\ntRS'system'\ntR(S'" + shell + "'\ntR.",
       "builtins.getattr(...)(...)"},
      {"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c" + std::string(1, static_cast<char>(shell.size())) + shell + "\x85R.",
       "os.system(...)"},
      {"csubprocess\nPopen\n(S'" + shell + "'\nt\x81.", "subprocess.Popen(...)"},
      {"cos\nsystem\n(S'" + shell + "'\nt}\x92.", "os.system(...)"},
      // The state of an object that would be set by a call of its __setstate__.
      {"ctorch\nload\n)R(S'" + shell + "'\ntb.", "torch.load(...)"},
  };
  for (const auto& a : attacks) {
    const Pickle p = parse(a.text);
    EXPECT_EQ(p.describe(p.root()), a.expected);
    EXPECT_FALSE(folder.has("owned"));
  }
}

TEST(Pickle, BombsStaySmall) {
  // "Billion laughs": each list contains the previous list ten times. The tree has one value per list.
  std::string text = "(l";
  for (int i = 0; i < 100; ++i)
    text += "q" + std::string(1, static_cast<char>(i)) + "0(" + ("h" + std::string(1, static_cast<char>(i))) +
            std::string(9, '2') + "l";
  EXPECT_LT(parse(text + ".").values(), 200u);
  // A list inside itself.
  const Pickle p = parse("]q\0h\0a."s);
  EXPECT_EQ(p.items(p.root())[0], p.root());
  // Nesting that would need a deep stack to walk.
  EXPECT_EQ(parse(std::string(1'000'000, '(') + std::string(1'000'000, 't') + ".").kind(0), Pickle::Kind::none);
  EXPECT_NE(refusal(std::string(5'000'000, '}')).find("at most 4000000 values are read"), std::string::npos);
  EXPECT_NE(refusal("N" + std::string(5'000'000, '\x94')).find("at most 4000000 values are memorised"), std::string::npos);
}

TEST(Pickle, EveryFaultIsNamed) {
  const struct {
    std::string text;
    const char* expected;
  } faults[] = {
      {"", "1 more bytes are needed"},
      {"N", "1 more bytes are needed"},
      {".", "takes a value from an empty stack"},
      {"NN.", "values left on its stack"},
      {"(N.", "values left on its stack"},
      {"t.", "down to a mark that is not there"},
      {"N(\x85.", "takes a value from an empty stack"},  // what lies below a mark is not to be had
      {"h\x05.", "fetches memo 5"},
      {"\x80\x09N."s, "protocols 0 to 5"},
      {"X\xff\xff\xff\x7f"
       "a.",
       "more bytes are needed"},
      {"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "more bytes are needed"},
      {"K\x01K\x02"
       "a.",
       "it puts values into an integer"},
      {"}K\x01"
       "a.",
       "it puts values into a dict"},
      {"}(NuN.", "keys with values"},
      {"Ix\n.", "a number that is none"},
      {"cos", "a line without an end"},
      {"NN\x93.", "named by two strings"},
      {"\xff.", "opcode 0xff is not known"},
      {"(o.", "an object without a class"},
  };
  for (const auto& f : faults) {
    const std::string text = refusal(f.text);
    EXPECT_NE(text.find(f.expected), std::string::npos) << text;
    EXPECT_NE(text.find("file.bin: byte "), std::string::npos) << text;
  }
}

}  // namespace test_files_pickle
