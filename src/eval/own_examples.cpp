#include "eval/own_examples.h"

#include <array>
#include <string>

#include <fmt/format.h>

namespace ravine {
namespace {

constexpr const char* kGsm8k =
    R"(Q: A baker fills 6 trays with 8 rolls each. She sells 35 of the rolls. How many rolls are left?

A: The trays hold 6 * 8 = 48 rolls. After 35 are sold, 48 - 35 = 13 are left. The answer is 13.

Q: Mia walks 3 km to school and the same way back, on 5 days a week. Her brother walks half as far. How many km do they walk together in a week?

A: Mia walks 2 * 3 = 6 km a day, which is 5 * 6 = 30 km a week. Her brother walks 30 / 2 = 15 km. Together they walk 30 + 15 = 45 km. The answer is 45.

Q: A lamp costs $40 and is sold at a quarter less. Tom buys 2 such lamps and pays with $100. How many dollars does he get back?

A: A quarter of $40 is $10, so a lamp costs 40 - 10 = 30 dollars. Two lamps cost 2 * 30 = 60 dollars. Tom gets back 100 - 60 = 40 dollars. The answer is 40.)";

struct Puzzle {
  const char *question, *answer;
};
// The examples of a task of BIG-Bench-Hard.
struct PuzzleKind {
  const char *subject, *description;  // description: the instruction of the task
  std::array<Puzzle, 3> puzzles;
};

const PuzzleKind kPuzzles[] = {
    {"boolean_expressions",
     "Work out whether an expression is True or False.",
     {{{"not ( False ) and True is", "True"},
       {"False or not True and True is", "False"},
       {"( True and not False ) or False is", "True"}}}},
    {"causal_judgement",
     "Say what most people would answer to a question about causes and intentions.",
     {{{"Ann leaves a candle burning beside a curtain and goes out. A draught moves the curtain into the flame, and the room burns. Did "
        "Ann cause the fire?\nOptions:\n- Yes\n- No",
        "Yes"},
       {"Ben throws a ball to his friend. A dog that nobody has seen jumps up, and the ball hits it. Did Ben hit the dog "
        "intentionally?\nOptions:\n- Yes\n- No",
        "No"},
       {"The lamp in a room needs one of two switches. Carl turns on the first one, and the lamp shines; the second one stays off. Did Carl "
        "cause the lamp to shine?\nOptions:\n- Yes\n- No",
        "Yes"}}}},
    {"date_understanding",
     "Work out a date.",
     {{{"Today is 3/1/2021. What is the date yesterday in MM/DD/YYYY?\nOptions:\n(A) 02/28/2021\n(B) 02/29/2021\n(C) 03/02/2021",
        "(A)"},
       {"A meeting was planned for 05/10/2019 and is held a week later. On which date is it held, in MM/DD/YYYY?\nOptions:\n(A) "
        "05/03/2019\n(B) 05/11/2019\n(C) 05/17/2019",
        "(C)"},
       {"Tomorrow is the first day of 2010. What is the date today in MM/DD/YYYY?\nOptions:\n(A) 01/01/2010\n(B) 12/31/2009\n(C) "
        "12/30/2009",
        "(B)"}}}},
    {"disambiguation_qa",
     "Say whom a pronoun stands for, or that the sentence does not tell.",
     {{{"Sentence: The pilot thanked the mechanic because she had repaired the engine.\nOptions:\n(A) The pilot had repaired the "
        "engine\n(B) The mechanic had repaired the engine\n(C) Ambiguous",
        "(B)"},
       {"Sentence: The gardener met the teacher at his house.\nOptions:\n(A) At the gardener's house\n(B) At the teacher's house\n(C) "
        "Ambiguous",
        "(C)"},
       {"Sentence: The tailor called the customer and told him that she had finished the coat.\nOptions:\n(A) The tailor had finished the "
        "coat\n(B) The customer had finished the coat\n(C) Ambiguous",
        "(A)"}}}},
    {"dyck_languages",
     "Close all brackets that are still open, the last one first.",
     {{{"Complete the rest of the sequence, making sure that the parentheses are closed properly. Input: ( [", "] )"},
       {"Complete the rest of the sequence, making sure that the parentheses are closed properly. Input: { < > [ ]", "}"},
       {"Complete the rest of the sequence, making sure that the parentheses are closed properly. Input: < { ( )", "} >"}}}},
    {"formal_fallacies",
     "Say whether a conclusion follows from the premises alone.",
     {{{"\"All oaks are trees. All trees are plants. So all oaks are plants.\"\nIs the argument, given the explicitly stated premises, "
        "deductively valid or invalid?\nOptions:\n- valid\n- invalid",
        "valid"},
       {"\"Every swimmer is fit. Lena is fit. So Lena is a swimmer.\"\nIs the argument, given the explicitly stated premises, deductively "
        "valid or invalid?\nOptions:\n- valid\n- invalid",
        "invalid"},
       {"\"Nobody who sings is sad. Otto is sad. So Otto does not sing.\"\nIs the argument, given the explicitly stated premises, "
        "deductively valid or invalid?\nOptions:\n- valid\n- invalid",
        "valid"}}}},
    {"geometric_shapes",
     "Name the shape that the path of an SVG element draws.",
     {{{"This SVG path element <path d=\"M 0.00,0.00 L 4.00,0.00 L 2.00,3.00 L 0.00,0.00\"/> draws a\nOptions:\n(A) circle\n(B) "
        "hexagon\n(C) triangle",
        "(C)"},
       {"This SVG path element <path d=\"M 1.00,1.00 L 7.00,5.00\"/> draws a\nOptions:\n(A) line\n(B) rectangle\n(C) triangle",
        "(A)"},
       {"This SVG path element <path d=\"M 0.00,0.00 L 6.00,0.00 L 6.00,2.00 L 0.00,2.00 L 0.00,0.00\"/> draws a\nOptions:\n(A) "
        "pentagon\n(B) rectangle\n(C) circle",
        "(B)"}}}},
    {"hyperbaton",
     "Choose the sentence whose adjectives stand in the usual order of English: opinion, size, age, shape, colour, origin, material, purpose.",
     {{{"Which sentence has the correct adjective order:\nOptions:\n(A) small old green bottle\n(B) green old small bottle",
        "(A)"},
       {"Which sentence has the correct adjective order:\nOptions:\n(A) wooden lovely chair\n(B) lovely wooden chair", "(B)"},
       {"Which sentence has the correct adjective order:\nOptions:\n(A) large red Dutch tractor\n(B) Dutch red large tractor",
        "(A)"}}}},
    {"logical_deduction",
     "Work out the order of things from what is said of them.",
     {{{"On a shelf there are three books: a red book, a blue book, and a white book. The red book is to the left of the blue book. The "
        "white book is the rightmost.\nOptions:\n(A) The red book is the leftmost\n(B) The blue book is the leftmost\n(C) The white book is "
        "the leftmost",
        "(A)"},
       {"Three runners finished a race: Ada, Bea, and Cleo. Ada finished behind Cleo. Bea finished last.\nOptions:\n(A) Ada finished "
        "first\n(B) Bea finished first\n(C) Cleo finished first",
        "(C)"},
       {"A stall sells three fruits: plums, kiwis, and figs. Kiwis are cheaper than plums. Figs are the cheapest.\nOptions:\n(A) Plums are "
        "the second-most expensive\n(B) Kiwis are the second-most expensive\n(C) Figs are the second-most expensive",
        "(B)"}}}},
    {"movie_recommendation",
     "Choose the film that is most like those named.",
     {{{"Find a movie similar to Toy Story, Finding Nemo, Monsters Inc:\nOptions:\n(A) Alien\n(B) Up\n(C) Psycho\n(D) Casino",
        "(B)"},
       {"Find a movie similar to Star Wars, The Matrix, Blade Runner:\nOptions:\n(A) The Terminator\n(B) Notting Hill\n(C) Mary "
        "Poppins\n(D) Amadeus",
        "(A)"},
       {"Find a movie similar to The Godfather, Goodfellas, Scarface:\nOptions:\n(A) Shrek\n(B) Cinderella\n(C) Grease\n(D) Casino",
        "(D)"}}}},
    {"multistep_arithmetic_two",
     "Work out an expression with several steps.",
     {{{"((2 + 3 * 4) - (1 - 5)) =", "18"}, {"((-2 * 3) + (7 - 4)) =", "-3"}, {"((6 - 8) * (5 + -3)) =", "-4"}}}},
    {"navigate",
     "Say whether somebody who follows the instructions comes back to the start.",
     {{{"If you follow these instructions, do you return to the starting point? Always face forward. Take 3 steps left. Take 3 steps "
        "right.\nOptions:\n- Yes\n- No",
        "Yes"},
       {"If you follow these instructions, do you return to the starting point? Take 2 steps. Turn left. Take 2 steps.\nOptions:\n- "
        "Yes\n- No",
        "No"},
       {"If you follow these instructions, do you return to the starting point? Take 5 steps. Turn around. Take 5 steps.\nOptions:\n- "
        "Yes\n- No",
        "Yes"}}}},
    {"object_counting",
     "Count the things of the kind that is asked for.",
     {{{"I have two spoons, a cup, and three apples. How many fruits do I have?", "3"},
       {"I have a drum, a dog, two flutes, and a violin. How many musical instruments do I have?", "4"},
       {"I have a cow, four hens, and a table. How many animals do I have?", "5"}}}},
    {"penguins_in_a_table",
     "Answer questions about a table.",
     {{{"Here is a table where the first line is a header and each subsequent line is a penguin: name, age, height (cm), weight (kg) Rita, 4, "
        "60, 12 Sam, 9, 70, 14 Tess, 6, 55, 10. What is the name of the oldest penguin?\nOptions:\n(A) Rita\n(B) Sam\n(C) Tess",
        "(B)"},
       {"Here is a table where the first line is a header and each subsequent line is a penguin: name, age, height (cm), weight (kg) Rita, 4, "
        "60, 12 Sam, 9, 70, 14 Tess, 6, 55, 10. How many penguins are taller than 58 cm?\nOptions:\n(A) 1\n(B) 2\n(C) 3",
        "(B)"},
       {"Here is a table where the first line is a header and each subsequent line is a penguin: name, age, height (cm), weight (kg) Rita, 4, "
        "60, 12 Sam, 9, 70, 14 Tess, 6, 55, 10. What is the weight of Tess?\nOptions:\n(A) 10 kg\n(B) 12 kg\n(C) 14 kg",
        "(A)"}}}},
    {"reasoning_about_colored_objects",
     "Answer questions about the colours of things.",
     {{{"On the desk there are a brown pen, a green cup, and a yellow key. What color is the cup?\nOptions:\n(A) brown\n(B) yellow\n(C) green",
        "(C)"},
       {"On the floor there are a red ball, a blue sock, and a red box. How many red things are there?\nOptions:\n(A) one\n(B) two\n(C) three",
        "(B)"},
       {"In a row from left to right there are a gray bowl, a pink fan, and a black shoe. What color is the thing right of the "
        "fan?\nOptions:\n(A) black\n(B) gray\n(C) pink",
        "(A)"}}}},
    {"ruin_names",
     "Choose the change of a name that makes it funny.",
     {{{"Which of the following is a humorous edit of this artist or movie name: 'jaws'?\nOptions:\n(A) jawss\n(B) naps\n(C) jaw\n(D) paws",
        "(D)"},
       {"Which of the following is a humorous edit of this artist or movie name: 'king kong'?\nOptions:\n(A) king kongs\n(B) king pong\n(C) "
        "kingg kong\n(D) kinq kong",
        "(B)"},
       {"Which of the following is a humorous edit of this artist or movie name: 'star wars'?\nOptions:\n(A) star warss\n(B) stir "
        "wars\n(C) star bars\n(D) ztar wars",
        "(C)"}}}},
    {"salient_translation_error_detection",
     "Name the kind of mistake that a translation from German to English has.",
     {{{"Source: Das Haus hat drei Fenster.\nTranslation: The house has five windows.\nThe translation contains an error "
        "pertaining to\nOptions:\n(A) Modifiers or Adjectives\n(B) Numerical Values\n(C) Negation or Antonyms\n(D) Named Entities\n(E) Dropped "
        "Content\n(F) Facts",
        "(B)"},
       {"Source: Anna wohnt in Wien.\nTranslation: Anna lives in Rome.\nThe translation contains an error pertaining to\nOptions:\n(A) "
        "Modifiers or Adjectives\n(B) Numerical Values\n(C) Negation or Antonyms\n(D) Named Entities\n(E) Dropped Content\n(F) Facts",
        "(D)"},
       {"Source: Der Hund schläft nicht.\nTranslation: The dog sleeps.\nThe translation contains an error pertaining to\nOptions:\n(A) "
        "Modifiers or Adjectives\n(B) Numerical Values\n(C) Negation or Antonyms\n(D) Named Entities\n(E) Dropped Content\n(F) Facts",
        "(C)"}}}},
    {"snarks",
     "Choose the sentence that is meant as sarcasm.",
     {{{"Which statement is sarcastic?\nOptions:\n(A) My train is an hour late, what a wonderful morning\n(B) My train is on time, what a "
        "wonderful morning",
        "(A)"},
       {"Which statement is sarcastic?\nOptions:\n(A) He shared his lunch with everybody, how generous\n(B) He kept the whole cake, how "
        "generous",
        "(B)"},
       {"Which statement is sarcastic?\nOptions:\n(A) I love it when my phone dies in the middle of a call\n(B) I love it when my "
        "phone lasts for a whole day",
        "(A)"}}}},
    {"sports_understanding",
     "Say whether a sentence about sports is plausible.",
     {{{"Is the following sentence plausible? \"The goalkeeper saved the penalty.\"", "yes"},
       {"Is the following sentence plausible? \"The swimmer scored a touchdown.\"", "no"},
       {"Is the following sentence plausible? \"The tennis player served an ace.\"", "yes"}}}},
    {"temporal_sequences",
     "Find the time at which somebody could have been at a place.",
     {{{"Today, Nora went to the library. Between what times could she have gone? Nora woke up at 8am. She was seen at the gym from 8am to "
        "10am, and at work from 11am to 6pm. The library closes at 6pm.\nOptions:\n(A) 8am to 10am\n(B) 10am to 11am\n(C) 11am to 6pm",
        "(B)"},
       {"Today, Paul went to the market. Between what times could he have gone? Paul woke up at 6am. He was seen at school from 9am to 4pm. "
        "The market closes at 4pm.\nOptions:\n(A) 6am to 9am\n(B) 9am to 4pm\n(C) 4pm to 6pm",
        "(A)"},
       {"Today, Rosa went to the bakery. Between what times could she have gone? Rosa woke up at 7am. She was seen at the park from 7am to "
        "8am, and at the office from 8am to 3pm. The bakery closes at 5pm.\nOptions:\n(A) 7am to 8am\n(B) 8am to 3pm\n(C) 3pm to 5pm",
        "(C)"}}}},
    {"tracking_shuffled_objects",
     "Work out who has what after several swaps.",
     {{{"Ida, Jon, and Kim each have a ball: Ida has a red ball, Jon has a blue ball, and Kim has a green ball. First, Ida and Jon swap balls. "
        "Then, Jon and Kim swap balls. At the end, Kim has the\nOptions:\n(A) red ball\n(B) blue ball\n(C) green ball",
        "(A)"},
       {"Ida, Jon, and Kim each have a book: Ida has a novel, Jon has an atlas, and Kim has a diary. First, Ida and Kim swap books. Then, Ida "
        "and Jon swap books. At the end, Jon has the\nOptions:\n(A) novel\n(B) atlas\n(C) diary",
        "(C)"},
       {"Ida, Jon, and Kim each have a hat: Ida has a straw hat, Jon has a cap, and Kim has a beret. First, Jon and Kim swap hats. Then, "
        "Jon and Kim swap hats. At the end, Ida has the\nOptions:\n(A) straw hat\n(B) cap\n(C) beret",
        "(A)"}}}},
    {"web_of_lies",
     "Say whether a person tells the truth.",
     {{{"Question: Uma tells the truth. Vic says Uma lies. Does Vic tell the truth?", "No"},
       {"Question: Uma lies. Vic says Uma lies. Wes says Vic tells the truth. Does Wes tell the truth?", "Yes"},
       {"Question: Uma lies. Vic says Uma tells the truth. Does Vic tell the truth?", "No"}}}},
    {"word_sorting",
     "Put words into alphabetical order.",
     {{{"Sort the following words alphabetically: List: pear apple fig", "apple fig pear"},
       {"Sort the following words alphabetically: List: stone river stair", "river stair stone"},
       {"Sort the following words alphabetically: List: zinc iron gold tin", "gold iron tin zinc"}}}},
};

std::string text_of(const PuzzleKind& kind) {
  std::string text = std::string(kind.description) + "\n\n";
  for (const Puzzle& p : kind.puzzles) text += fmt::format("Q: {}\nA: {}\n\n", p.question, p.answer);
  return text;
}

}  // namespace

Json own_examples() {
  Json all = {{"gsm8k", {{"few_shot", kGsm8k}}}, {"bbh", Json::object()}, {"agieval", own_exam_examples()}};
  for (const PuzzleKind& kind : kPuzzles) all["bbh"][kind.subject] = text_of(kind);
  return all;
}

}  // namespace ravine
