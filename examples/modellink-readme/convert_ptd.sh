python tools/ckpt_convert/llama/convert_weights_from_huggingface.py --input-model-dir llama-7b-hf \
                                                                    --output-model-dir llama-7b-tp2-pp2 \
                                                                    --tensor-model-parallel-size 2 \
                                                                    --pipeline-model-parallel-size 2 \
                                                                    --type 7B
