python tools/ckpt_convert/llama/convert_weights_from_huggingface.py --input-model-dir llama-7b-hf \
                                                                    --output-model-dir llama-7b-deepspeed \
                                                                    --type 7B \
                                                                    --deepspeed
