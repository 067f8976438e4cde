// The tables of Megatron-LM's and ModelLink's flags, by topic. `Classic` are ModelLink's programs of 2023 (pretrain_llama.py,
// pretrain_baichuan.py, pretrain_bloom.py, pretrain_intern.py), `core` those of 2024 on Megatron-core (pretrain_gpt.py); they
// differ in defaults and share their flags here.
#pragma once
#include "dialects/dialect.h"

namespace ravine {

enum class MegatronAge : uint8_t { classic, core };

DialectTable megatron_network_rows(MegatronAge age);
DialectTable megatron_training_rows(MegatronAge age);
DialectTable megatron_layout_rows();
DialectTable megatron_files_rows();
DialectTable megatron_recent_rows();                    // of ModelLink since the middle of 2024
DialectTable megatron_training_table(MegatronAge age);  // all of these

}  // namespace ravine
