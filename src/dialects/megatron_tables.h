// The tables of Megatron-LM's and ModelLink's flags, by topic. `classic` means ModelLink's programs of 2023
// (pretrain_llama.py, pretrain_baichuan.py, pretrain_bloom.py, pretrain_intern.py). `core` means the programs of 2024
// on Megatron-core (pretrain_gpt.py). Both have the same flags here, with different defaults.
#pragma once
#include "dialects/dialect.h"

namespace ravine {

enum class MegatronAge : uint8_t { classic, core };

DialectTable megatron_network_rows(MegatronAge age);
DialectTable megatron_training_rows(MegatronAge age);
DialectTable megatron_layout_rows();
DialectTable megatron_files_rows();
DialectTable megatron_recent_rows();                    // flags of ModelLink since the middle of 2024
DialectTable megatron_training_table(MegatronAge age);  // the flags of all functions above

}  // namespace ravine
