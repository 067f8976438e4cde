// Ravine's worked examples of AGIEval.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "eval/own_examples.h"

namespace ravine {
namespace {

struct ExamExample {
  std::string question;
  std::vector<std::string> options;  // empty: the answer is a text
  std::string answer;
};

struct ExamSubject {
  const char* name;
  size_t shots;  // number of examples, as in ModelLink
};

struct Exam {
  std::vector<ExamSubject> subjects;
  bool english = false;  // language of the words around the questions; gaokao-english has Chinese ones, as in ModelLink
  std::vector<ExamExample> examples;
};

std::vector<Exam> exams() {
  const std::vector<ExamExample> reading = {
      {"The mill at the river had stood still for years. When the new owner cleared the channel, the wheel turned again within a day, and "
       "the village, which had laughed at her, came to buy flour.\nWhat does the passage say about the wheel?",
       {"(A)It was broken beyond repair.", "(B)It turned once the channel was clear.", "(C)It was sold to the village.",
        "(D)It never stood still."},
       "B"},
      {"Bats find their way in the dark by sound. They call, and listen to what comes back from walls and insects. In a quiet cave this works "
       "well; near a loud road they hunt less.\nWhy do bats hunt less near a loud road?",
       {"(A)The noise hides what they listen for.", "(B)Insects are afraid of light.", "(C)Roads have no walls.",
        "(D)They sleep in caves."},
       "A"}};
  const std::vector<ExamExample> words = {
      {"Which choice completes the sentence: The two maps ___ each other.",
       {"(A)contradict", "(B)contradicts", "(C)contradicting", "(D)has contradicted"},
       "A"},
      {"Which word is closest in meaning to \"scarce\"?", {"(A)rare", "(B)plain", "(C)loud", "(D)warm"}, "A"},
      {"Which sentence is punctuated correctly?",
       {"(A)The bridge, which is old was closed.", "(B)The bridge which is old, was closed.",
        "(C)The bridge, which is old, was closed.", "(D)The bridge which, is old was closed."},
       "C"}};
  const std::vector<ExamExample> sums = {
      {"A train covers 150 km in 2 hours. How many km does it cover in 5 hours at the same speed?",
       {"(A)300", "(B)350", "(C)375", "(D)400", "(E)450"},
       "C"},
      {"If 3x + 4 = 19, what is x?", {"(A)3", "(B)5", "(C)6", "(D)7", "(E)15"}, "B"},
      {"A price of 80 rises by 25 percent. What is the new price?", {"(A)85", "(B)90", "(C)96", "(D)100", "(E)105"}, "D"},
      {"What is the mean of 4, 7, and 10?", {"(A)6", "(B)7", "(C)8", "(D)9", "(E)21"}, "B"},
      {"A rectangle is 6 long and has area 24. How wide is it?", {"(A)3", "(B)4", "(C)6", "(D)12", "(E)18"}, "B"}};
  const std::vector<ExamExample> reasons = {
      {"Five guests sit in a row. Ann sits at the left end, and Bob sits beside her. Cy does not sit beside Bob.\nWhich seat, counted from the "
       "left, can Cy have?",
       {"(A)the first", "(B)the second", "(C)the third", "(D)the fourth"},
       "D"},
      {"Every shop in the street that sells bread opens at six. The shop at the corner opens at seven.\nWhat follows?",
       {"(A)The shop at the corner sells bread.", "(B)The shop at the corner sells no bread.", "(C)No shop opens at seven.",
        "(D)All shops sell bread."},
       "B"}};
  return {
      {{{"aqua-rat", 5}, {"sat-math", 5}}, true, sums},
      {{{"math", 4}},
       true,
       {{"What is the sum of the whole numbers from 1 to 10?", {}, "55"},
        {"What is the greatest common divisor of 18 and 24?", {}, "6"},
        {"A square has area 49. What is its perimeter?", {}, "28"},
        {"How many prime numbers are below 10?", {}, "4"}}},
      {{{"lsat-ar", 2}, {"logiqa-en", 2}}, true, reasons},
      {{{"lsat-lr", 1}}, true, {reasons[1]}},
      {{{"lsat-rc", 1}, {"sat-en", 1}}, true, reading},
      {{{"sat-en-without-passage", 3}}, true, words},
      {{{"gaokao-english", 1}}, false, reading},
      {{{"gaokao-biology", 5}},
       false,
       {{"下列结构中，植物细胞有而动物细胞没有的是", {"(A)细胞膜", "(B)细胞壁", "(C)细胞核", "(D)线粒体"}, "B"},
        {"人体内运输氧气的主要是", {"(A)红细胞", "(B)白细胞", "(C)血小板", "(D)血浆中的盐"}, "A"},
        {"绿色植物在光下制造有机物的过程叫", {"(A)呼吸作用", "(B)蒸腾作用", "(C)光合作用", "(D)分裂"}, "C"},
        {"遗传信息主要储存在", {"(A)脂肪", "(B)DNA", "(C)水", "(D)维生素"}, "B"},
        {"下列生物中没有细胞结构的是", {"(A)病毒", "(B)细菌", "(C)酵母菌", "(D)草履虫"}, "A"}}},
      {{{"gaokao-chemistry", 5}},
       false,
       {{"下列物质中属于单质的是", {"(A)水", "(B)食盐", "(C)氧气", "(D)二氧化碳"}, "C"},
        {"常温下 pH 等于 7 的水溶液呈", {"(A)酸性", "(B)碱性", "(C)中性", "(D)无法判断"}, "C"},
        {"下列变化属于化学变化的是", {"(A)冰融化", "(B)铁生锈", "(C)水蒸发", "(D)糖溶解"}, "B"},
        {"钠离子的符号是", {"(A)Na+", "(B)K+", "(C)Mg2+", "(D)Cl-"}, "A"},
        {"一个水分子含有的氢原子个数是", {"(A)0", "(B)1", "(C)2", "(D)3"}, "C"}}},
      {{{"gaokao-physics", 5}},
       false,
       {{"一物体以 4 米每秒的速度匀速运动 5 秒，它的位移是", {"(A)9 米", "(B)20 米", "(C)1.25 米", "(D)0.8 米"}, "B"},
        {"质量 2 千克的物体受到 6 牛的合力，它的加速度是",
         {"(A)3 米每二次方秒", "(B)12 米每二次方秒", "(C)4 米每二次方秒", "(D)8 米每二次方秒"},
         "A"},
        {"电阻 5 欧的导体两端电压为 10 伏，通过它的电流是", {"(A)50 安", "(B)15 安", "(C)0.5 安", "(D)2 安"}, "D"},
        {"力的国际单位是", {"(A)牛", "(B)焦", "(C)瓦", "(D)帕"}, "A"},
        {"光从空气斜射入水中时发生的现象是", {"(A)只有直线传播", "(B)折射", "(C)全部吸收", "(D)变成声音"}, "B"}}},
      {{{"gaokao-geography", 5}},
       false,
       {{"地球自转一周大约需要", {"(A)一小时", "(B)一天", "(C)一个月", "(D)一年"}, "B"},
        {"赤道地区全年气温高，主要因为", {"(A)离海近", "(B)地势高", "(C)太阳高度大", "(D)风力弱"}, "C"},
        {"地球公转一周大约需要", {"(A)一天", "(B)一周", "(C)一个月", "(D)一年"}, "D"},
        {"地图上比例尺 1:1000 表示图上 1 厘米代表实地", {"(A)1 米", "(B)10 米", "(C)100 米", "(D)1000 米"}, "B"},
        {"下列属于可再生资源的是", {"(A)煤", "(B)石油", "(C)风能", "(D)铁矿"}, "C"}}},
      {{{"gaokao-history", 5}},
       false,
       {{"统一六国、建立中国第一个中央集权王朝的是", {"(A)汉武帝", "(B)秦始皇", "(C)唐太宗", "(D)宋太祖"}, "B"},
        {"造纸术的改进者通常认为是", {"(A)蔡伦", "(B)毕昇", "(C)张衡", "(D)沈括"}, "A"},
        {"第二次世界大战结束于", {"(A)1918 年", "(B)1939 年", "(C)1945 年", "(D)1950 年"}, "C"},
        {"工业革命最早开始的国家是", {"(A)法国", "(B)德国", "(C)俄国", "(D)英国"}, "D"},
        {"丝绸之路在汉代的起点城市是", {"(A)长安", "(B)广州", "(C)杭州", "(D)成都"}, "A"}}},
      {{{"gaokao-chinese", 1}},
       false,
       {{"雨停了，孩子们跑到院子里看彩虹，老人坐在门口，笑着说：“我小时候也这样。”\n老人的话表达了他对什么的感情？",
         {"A.对雨的厌烦", "B.对童年的怀念", "C.对孩子的责备", "D.对院子的不满"},
         "B"}}},
      {{{"gaokao-mathqa", 5}},
       false,
       {{"集合 {1,2,3} 与 {2,3,4} 的交集是", {"(A){1,4}", "(B){2,3}", "(C){1,2,3,4}", "(D)空集"}, "B"},
        {"等差数列首项为 2，公差为 3，则第 4 项是", {"(A)8", "(B)9", "(C)11", "(D)14"}, "C"},
        {"函数 f(x)=2x+1 在 x=3 处的值是", {"(A)5", "(B)6", "(C)7", "(D)8"}, "C"},
        {"三角形的三个内角之和是", {"(A)90 度", "(B)180 度", "(C)270 度", "(D)360 度"}, "B"},
        {"掷一枚均匀的硬币，正面朝上的概率是", {"(A)1/2", "(B)1/3", "(C)1/4", "(D)1"}, "A"}}},
      {{{"gaokao-mathcloze", 5}},
       false,
       {{"若 x+3=8，则 x=", {}, "5"},
        {"长为 4、宽为 3 的长方形的面积是", {}, "12"},
        {"2 的 5 次方等于", {}, "32"},
        {"1、3、5、7 的和是", {}, "16"},
        {"数列 3、6、12 的下一项是", {}, "24"}}},
      {{{"logiqa-zh", 3}},
       false,
       {{"所有的鱼都生活在水里。鲤鱼是鱼。\n由此可以推出",
         {"(A)鲤鱼生活在水里", "(B)水里只有鱼", "(C)鲤鱼不是鱼", "(D)水里没有鲤鱼"},
         "A"},
        {"如果下雨，运动会就改期。运动会没有改期。\n由此可以推出",
         {"(A)下雨了", "(B)没有下雨", "(C)运动会取消", "(D)无法推出"},
         "B"},
        {"甲比乙高，乙比丙高。\n由此可以推出", {"(A)丙最高", "(B)乙最高", "(C)甲最高", "(D)三人一样高"}, "C"}}},
      {{{"jec-qa-ca", 3}, {"jec-qa-kd", 4}},
       false,
       {{"甲把借来的自行车卖给不知情的乙，车主是丙。关于甲，下列哪些说法正确？",
         {"(A)甲不是车的所有人", "(B)甲有权卖车", "(C)甲应对丙负责", "(D)甲与丙没有关系"},
         "A,C"},
        {"成年且能辨认自己行为的人签订买卖合同，下列哪一项正确？",
         {"(A)合同一律无效", "(B)合同须由父母同意", "(C)此人有相应的行为能力", "(D)合同只能口头订立"},
         "C"},
        {"甲拾到乙的钱包，关于甲，下列哪一项正确？", {"(A)应当返还", "(B)取得所有权", "(C)可以卖掉", "(D)可以丢弃"}, "A"},
        {"下列哪些属于民事主体？", {"(A)自然人", "(B)法人", "(C)一棵树", "(D)一条河"}, "A,B"}}},
  };
}

// Returns the examples and the start of the question in ModelLink's form (tasks/agieval.cpp).
std::string text_of(const Exam& exam, size_t shots, const std::string& before_options, const std::string& answer_prefix) {
  const char* problem = exam.english ? "Problem" : "问题";
  std::string text = exam.english ? "Here are the answers for the problems in the exam.\n" : "以下是考试中各个问题的答案。\n";
  for (size_t i = 0; i < shots; ++i) {
    const ExamExample& e = exam.examples.at(i);
    text += fmt::format("{} {}.   {}", problem, i + 1, e.question);
    if (!e.options.empty()) text += fmt::format("{}{}", before_options, fmt::join(e.options, "\n"));
    text += fmt::format("{}{}\n\n", answer_prefix, e.answer);
  }
  return text + fmt::format("{} {}.", problem, shots + 1);
}

}  // namespace

Json own_exam_examples() {
  Json all = Json::object();
  for (const Exam& exam : exams()) {
    const std::string before_options = exam.english ? "\nChoose from the following options:\n" : "\n从以下选项中选择:\n",
                      answer_prefix = exam.english ? "\nAnswer:" : "\n答案：";
    for (const ExamSubject& s : exam.subjects)
      all[s.name] = Json::array({text_of(exam, s.shots, before_options, answer_prefix), before_options, answer_prefix});
  }
  return all;
}

}  // namespace ravine
