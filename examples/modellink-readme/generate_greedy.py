responses = model.generate(
    "Write quick sort code in python",
    max_new_tokens=512
)
