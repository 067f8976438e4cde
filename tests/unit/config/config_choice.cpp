// Enums as options: their table of names, all values or some, and optional ones with a word for no value.
#include "config/choice.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/config.h"

using namespace ravine;

namespace test_config_choice {

enum class Fruit : uint8_t { apple, plum, red_currant };
constexpr auto names_of(Fruit) {
  using enum Fruit;
  return std::to_array<ValueName<Fruit>>({{apple, "apple"}, {plum, "plum"}, {red_currant, "red-currant"}});
}

// Tables that do not say what they should.
enum class Swapped : uint8_t { one, two };
constexpr auto names_of(Swapped) { return std::to_array<ValueName<Swapped>>({{Swapped::two, "two"}, {Swapped::one, "one"}}); }
enum class Twice : uint8_t { one, two };
constexpr auto names_of(Twice) { return std::to_array<ValueName<Twice>>({{Twice::one, "one"}, {Twice::two, "one"}}); }

TEST(Names, RowsFollowTheValuesAndNoNameStandsTwice) {
  EXPECT_TRUE(is_table_of_names<Fruit>());
  EXPECT_FALSE(is_table_of_names<Swapped>());
  EXPECT_FALSE(is_table_of_names<Twice>());
  EXPECT_EQ(name(Fruit::red_currant), "red-currant");
  EXPECT_EQ(value_named<Fruit>("plum"), Fruit::plum);
  EXPECT_EQ(value_named<Fruit>("Plum"), std::nullopt);
  EXPECT_EQ(value_named<Fruit>(""), std::nullopt);
  EXPECT_THROW(name(static_cast<Fruit>(3)), Error) << "a value that the table lacks";
  EXPECT_EQ(name_or(std::optional(Fruit::apple), "none"), "apple");
  EXPECT_EQ(name_or(std::optional<Fruit>(), "none"), "none");
}

struct Basket {
  Fruit fruit = Fruit::plum;
  std::optional<Fruit> second;
  std::optional<DType> type = DType::bf16;
  Fruit some = Fruit::plum;
  template <class V>
  void each(V&& v) {
    v("fruit", fruit, "what lies in it", fixed());
    v("second", second, "what else", no_value("auto"));
    v("type", type, "numbers", one_of<DType>({DType::f32, DType::bf16, std::nullopt}));
    v("some", some, "not all", one_of<Fruit>({Fruit::red_currant, Fruit::plum}));
  }
};

struct Filled {
  Basket basket;
  std::vector<Option> options = options_of(basket, "basket");
  std::string error(size_t i, const std::string& text) {
    try {
      options[i].assign_text(text, "here");
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  }
};

TEST(Choice, WordsComeFromTheTable) {
  Filled f;
  EXPECT_EQ(f.options[0].rule.choices, (std::vector<std::string>{"apple", "plum", "red-currant"}));
  EXPECT_EQ(f.options[0].rule.on_resume, OnResume::fixed);
  EXPECT_EQ(f.options[0].type(), "apple | plum | red-currant");
  EXPECT_EQ(f.options[1].type(), "auto | apple | plum | red-currant");
  EXPECT_EQ(f.options[2].type(), "f32 | bf16 | ''");
  EXPECT_EQ(f.options[3].type(), "red-currant | plum");
  for (const Option& o : f.options) EXPECT_TRUE(o.is_text() && o.is_choice() && !o.is_list() && !o.is_bool());
}

TEST(Choice, ValuesAreReadAndWritten) {
  Filled f;
  EXPECT_EQ(f.options[0].yaml(), "plum");
  EXPECT_EQ(f.options[1].yaml(), "auto");
  EXPECT_EQ(f.options[2].yaml(), "bf16");
  EXPECT_EQ(f.error(0, "red-currant"), "");
  EXPECT_EQ(f.basket.fruit, Fruit::red_currant);
  EXPECT_EQ(f.options[0].text(), "red-currant");
  EXPECT_EQ(f.error(1, "apple"), "");
  EXPECT_EQ(f.basket.second, Fruit::apple);
  EXPECT_EQ(f.error(1, "auto"), "");
  EXPECT_EQ(f.basket.second, std::nullopt);
  EXPECT_EQ(f.error(2, ""), "");
  EXPECT_EQ(f.basket.type, std::nullopt);
  EXPECT_EQ(f.options[2].yaml(), "\"\"");
  f.options[2].assign(*load_yaml("f32", "x"), "x");
  EXPECT_EQ(f.basket.type, DType::f32);
  f.options[2].assign(*load_yaml("", "x"), "x");
  EXPECT_EQ(f.basket.type, std::nullopt) << "nothing is the empty word";
}

TEST(Choice, OtherWordsAreRefusedAsTextsAre) {
  Filled f;
  EXPECT_EQ(f.error(0, "aple"),
            "basket.fruit is 'aple' (here): must be one of apple, plum, red-currant; did you mean 'apple'?");
  EXPECT_EQ(f.error(0, "PLUM"), "basket.fruit is 'PLUM' (here): must be one of apple, plum, red-currant; did you mean 'plum'?");
  EXPECT_EQ(f.error(0, ""), "basket.fruit is '' (here): must be one of apple, plum, red-currant; write one of them");
  EXPECT_EQ(f.error(2, "bfloat16"), "basket.type is 'bfloat16' (here): must be one of f32, bf16, or empty; here it is bf16");
  EXPECT_NE(f.error(2, "f64"), "") << "a type, but none of those that are taken";
  EXPECT_NE(f.error(3, "apple"), "") << "a value, but none of those that are taken";
  EXPECT_EQ(f.basket.some, Fruit::plum) << "what was refused has changed nothing";
  EXPECT_NE(f.error(1, ""), "") << "no value has its own word";
}

// Every option with a choice of its values takes each of its words and writes the same word again.
TEST(Choice, EveryWordOfEveryOptionComesBack) {
  Config c;
  int words = 0;
  for (const Section& s : sections_of(c))
    for (const Option& o : s.options)
      for (const std::string& word : o.rule.choices) {
        if (o.is_list()) {  // of a table in the option itself
          o.assign_text(word, "here");
          EXPECT_EQ(o.yaml(), "[" + word + "]") << o.name();
          continue;
        }
        o.assign_text(word, "here");
        EXPECT_EQ(o.text(), word) << o.name();
        EXPECT_TRUE(o.is_choice()) << o.name() << ": a text, whose words nobody counts";
        ++words;
      }
  EXPECT_GT(words, 50);
}

}  // namespace test_config_choice
