#!/usr/bin/env python3
"""Small data for the scripts of this folder, made up here: texts, instructions, and questions in the form of BoolQ. They lie in the folder data."""
import json
import random
from pathlib import Path

PLACES = ["valley", "river", "bridge", "village", "forest", "harbour", "mill", "tower"]
LOOKS = ["deep", "old", "narrow", "quiet", "bright", "steep"]
DEEDS = ["lies behind the {0} {1}", "was drawn on a map beside the {0} {1}", "is seen from the {0} {1}", "has a path to the {0} {1}"]


def sentence(draw):
    first, second = draw.sample(PLACES, 2)
    return f"The {draw.choice(LOOKS)} {first} {draw.choice(DEEDS).format(draw.choice(LOOKS), second)}."


def lines(file, records):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(x) + "\n" for x in records))


def main():
    draw, data = random.Random(1), Path("data")
    lines(data / "books.jsonl", [{"text": " ".join(sentence(draw) for _ in range(40))} for _ in range(40)])
    lines(data / "alpaca.jsonl", [{"instruction": f"Say something about a {place}.", "input": "", "output": f"A {place} may be {look}."} for place in PLACES for look in LOOKS])
    lines(data / "boolq" / "dev.jsonl", [{"passage": f"The {place} is {look}.", "question": f"is the {place} {asked}", "answer": look == asked}
                                         for place in PLACES[:4] for look in LOOKS[:2] for asked in LOOKS[:2]])


if __name__ == "__main__":
    main()
