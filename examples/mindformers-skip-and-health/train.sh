bash scripts/msrun_launcher.sh "run_mindformer.py \
--register_path research/llama3_1 \
--config research/llama3_1/llama3_1_8b/finetune_llama3_1_8b.yaml \
--train_data /{path}/wiki4096.mindrecord \
--run_mode train \
--use_parallel True" 8
