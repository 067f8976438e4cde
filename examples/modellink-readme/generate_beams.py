responses = model.generate(
    "Write quick sort code in python",
    num_beams=4,
    top_k=50,
    top_p=0.95,
    max_new_tokens=512
)
