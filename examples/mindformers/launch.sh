#!/bin/bash
# Read and never executed: ravine mindformers --script launch.sh
WORKERS=${WORKERS:-2}
DATA=${DATA:-data.mindrecord}

bash scripts/msrun_launcher.sh "run_mindformer.py \
 --config guarded.yaml \
 --train_dataset_dir $DATA \
 --run_mode train \
 --use_parallel True" $WORKERS 8118 output/msrun_log False 7200
