// The keys of MindFormers, section by section, and what a key may only be.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace ravine {

// A key that does nothing here as long as it has one of these values; any other asks for something that is not there.
struct OnlyValues {
  std::vector<Json> values;
  std::string rule, fix;
};

struct MindFormersTable {
  DialectTable rows;
  std::map<std::string, OnlyValues> only;

  void add(DialectTable more);
  void add_only(const std::string& key, KeyType type, std::vector<Json> values, const std::string& reason,
                const std::string& rule, const std::string& fix = "leave it out");
};

// All that the keys of this line may be: its callbacks and the kind of its model decide about some rows.
MindFormersTable mindformers_table(const std::vector<GivenKey>& given);

const std::vector<std::string>& mindformers_callbacks();  // classes that are known

void add_mindformers_model_rows(MindFormersTable& table, const std::vector<GivenKey>& given);
void add_mindformers_expert_rows(MindFormersTable& table);
void add_mindformers_precision_rows(MindFormersTable& table);
void add_mindformers_data_rows(MindFormersTable& table, const std::vector<GivenKey>& given);
void add_mindformers_update_rows(MindFormersTable& table);
void add_mindformers_callback_rows(MindFormersTable& table, const std::vector<GivenKey>& given);

}  // namespace ravine
