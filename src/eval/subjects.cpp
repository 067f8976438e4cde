#include "eval/subjects.h"

#include <algorithm>
#include <iterator>

namespace ravine {
namespace {

struct MmluSubject {
  std::string_view name, category;
};
constexpr MmluSubject kMmluSubjects[] = {
    {"abstract_algebra", "stem"},
    {"anatomy", "stem"},
    {"astronomy", "stem"},
    {"business_ethics", "other"},
    {"clinical_knowledge", "other"},
    {"college_biology", "stem"},
    {"college_chemistry", "stem"},
    {"college_computer_science", "stem"},
    {"college_mathematics", "stem"},
    {"college_medicine", "other"},
    {"college_physics", "stem"},
    {"computer_security", "stem"},
    {"conceptual_physics", "stem"},
    {"econometrics", "social_sciences"},
    {"electrical_engineering", "stem"},
    {"elementary_mathematics", "stem"},
    {"formal_logic", "humanities"},
    {"global_facts", "other"},
    {"high_school_biology", "stem"},
    {"high_school_chemistry", "stem"},
    {"high_school_computer_science", "stem"},
    {"high_school_european_history", "humanities"},
    {"high_school_geography", "social_sciences"},
    {"high_school_government_and_politics", "social_sciences"},
    {"high_school_macroeconomics", "social_sciences"},
    {"high_school_mathematics", "stem"},
    {"high_school_microeconomics", "social_sciences"},
    {"high_school_physics", "stem"},
    {"high_school_psychology", "social_sciences"},
    {"high_school_statistics", "stem"},
    {"high_school_us_history", "humanities"},
    {"high_school_world_history", "humanities"},
    {"human_aging", "other"},
    {"human_sexuality", "social_sciences"},
    {"international_law", "humanities"},
    {"jurisprudence", "humanities"},
    {"logical_fallacies", "humanities"},
    {"machine_learning", "stem"},
    {"management", "other"},
    {"marketing", "other"},
    {"medical_genetics", "other"},
    {"miscellaneous", "other"},
    {"moral_disputes", "humanities"},
    {"moral_scenarios", "humanities"},
    {"nutrition", "other"},
    {"philosophy", "humanities"},
    {"prehistory", "humanities"},
    {"professional_accounting", "other"},
    {"professional_law", "humanities"},
    {"professional_medicine", "other"},
    {"professional_psychology", "social_sciences"},
    {"public_relations", "social_sciences"},
    {"security_studies", "social_sciences"},
    {"sociology", "social_sciences"},
    {"us_foreign_policy", "social_sciences"},
    {"virology", "other"},
    {"world_religions", "humanities"},
};

struct CevalSubject {
  std::string_view name, chinese, category;
  bool hard = false;
};
constexpr CevalSubject kCevalSubjects[] = {
    {"computer_network", "计算机网络", "stem"},
    {"operating_system", "操作系统", "stem"},
    {"computer_architecture", "计算机组成", "stem"},
    {"college_programming", "大学编程", "stem"},
    {"college_physics", "大学物理", "stem", true},
    {"college_chemistry", "大学化学", "stem", true},
    {"advanced_mathematics", "高等数学", "stem", true},
    {"probability_and_statistics", "概率统计", "stem", true},
    {"discrete_mathematics", "离散数学", "stem", true},
    {"electrical_engineer", "注册电气工程师", "stem"},
    {"metrology_engineer", "注册计量师", "stem"},
    {"high_school_mathematics", "高中数学", "stem", true},
    {"high_school_physics", "高中物理", "stem", true},
    {"high_school_chemistry", "高中化学", "stem", true},
    {"high_school_biology", "高中生物", "stem"},
    {"middle_school_mathematics", "初中数学", "stem"},
    {"middle_school_biology", "初中生物", "stem"},
    {"middle_school_physics", "初中物理", "stem"},
    {"middle_school_chemistry", "初中化学", "stem"},
    {"veterinary_medicine", "兽医学", "stem"},
    {"college_economics", "大学经济学", "social_science"},
    {"business_administration", "工商管理", "social_science"},
    {"marxism", "马克思主义基本原理", "social_science"},
    {"mao_zedong_thought", "毛泽东思想和中国特色社会主义理论体系概论", "social_science"},
    {"education_science", "教育学", "social_science"},
    {"teacher_qualification", "教师资格", "social_science"},
    {"high_school_politics", "高中政治", "social_science"},
    {"high_school_geography", "高中地理", "social_science"},
    {"middle_school_politics", "初中政治", "social_science"},
    {"middle_school_geography", "初中地理", "social_science"},
    {"modern_chinese_history", "近代史纲要", "humanities"},
    {"ideological_and_moral_cultivation", "思想道德修养与法律基础", "humanities"},
    {"logic", "逻辑学", "humanities"},
    {"law", "法学", "humanities"},
    {"chinese_language_and_literature", "中国语言文学", "humanities"},
    {"art_studies", "艺术学", "humanities"},
    {"professional_tour_guide", "导游资格", "humanities"},
    {"legal_professional", "法律职业资格", "humanities"},
    {"high_school_chinese", "高中语文", "humanities"},
    {"high_school_history", "高中历史", "humanities"},
    {"middle_school_history", "初中历史", "humanities"},
    {"civil_servant", "公务员", "other"},
    {"sports_science", "体育学", "other"},
    {"plant_protection", "植物保护", "other"},
    {"basic_medicine", "基础医学", "other"},
    {"clinical_medicine", "临床医学", "other"},
    {"urban_and_rural_planner", "注册城乡规划师", "other"},
    {"accountant", "注册会计师", "other"},
    {"fire_engineer", "注册消防工程师", "other"},
    {"environmental_impact_assessment_engineer", "环境影响评价工程师", "other"},
    {"tax_accountant", "税务师", "other"},
    {"physician", "医师资格", "other"},
};

const CevalSubject* ceval_subject(const std::string& subject) {
  const auto* it = std::find_if(std::begin(kCevalSubjects), std::end(kCevalSubjects),
                                [&](const CevalSubject& s) { return s.name == subject; });
  return it == std::end(kCevalSubjects) ? nullptr : it;
}

}  // namespace

std::vector<std::string> categories_of(std::string_view task, const std::string& subject) {
  if (task == "mmlu")
    for (const MmluSubject& s : kMmluSubjects)
      if (s.name == subject) return {std::string(s.category)};
  if (const CevalSubject* s = task == "ceval" ? ceval_subject(subject) : nullptr) {
    std::vector<std::string> all{std::string(s->category)};
    if (s->hard) all.emplace_back("hard");
    return all;
  }
  return {};
}

std::string chinese_name_of(const std::string& subject) {
  const CevalSubject* s = ceval_subject(subject);
  return s ? std::string(s->chinese) : subject;
}

}  // namespace ravine
