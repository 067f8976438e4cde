// The tables of MindFormers' keys, by section, with allowed values.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace ravine {

// The allowed values of a key that has no effect. Any other value needs a feature that Ravine does not have, and is
// refused with `rule` and `fix`.
struct OnlyValues {
  std::vector<Json> values;
  std::string rule, fix;
};

// The table of MindFormers' keys: a row per key, and for keys without effect their allowed values.
struct MindFormersTable {
  DialectTable rows;
  std::map<std::string, OnlyValues> only;

  void add(DialectTable more);
  void add_only(const std::string& key, KeyType type, std::vector<Json> values, const std::string& reason,
                const std::string& rule, const std::string& fix = "leave it out");
};

// Returns the table of MindFormers' keys for a job. given: the keys that the job sets; its callbacks and the kind of
// its model decide on some rows.
MindFormersTable mindformers_table(const std::vector<GivenKey>& given);

const std::vector<std::string>& mindformers_callbacks();  // names of the known classes

void add_mindformers_model_rows(MindFormersTable& table, const std::vector<GivenKey>& given);
void add_mindformers_expert_rows(MindFormersTable& table);
void add_mindformers_precision_rows(MindFormersTable& table);
void add_mindformers_data_rows(MindFormersTable& table, const std::vector<GivenKey>& given);
void add_mindformers_update_rows(MindFormersTable& table);
void add_mindformers_callback_rows(MindFormersTable& table, const std::vector<GivenKey>& given);

}  // namespace ravine
