"""Writes tests/golden/post_processors.json: what PyPI's tokenizers puts around a text by chains of post-processors.

Usage: python tools/golden/post_processors.py > tests/golden/post_processors.json
Each row is {"post_processor": .., "ids": ..}; ids is null where the library panics. The text is the token 2.
"""
import itertools
import json

from tokenizers import Tokenizer, models, pre_tokenizers, processors

VOCABULARY = {"a": 0, "b": 1, "text": 2, "unknown": 3}


def template(single, pair="$A $B"):
    return processors.TemplateProcessing(single, pair, special_tokens=[("a", 0), ("b", 1)])


def main():
    first = [template("a $A"), template("$A a"), template("$A"), template("a $A b"), template("a b a $A"), processors.RobertaProcessing(("b", 1), ("a", 0)), processors.ByteLevel()]
    second = [template("b $A"), template("b $A", "b $A $B"), template("b $A", "$B b $A b"), template("$A b", "$A b $B a a"), processors.BertProcessing(("b", 1), ("a", 0)),
              processors.RobertaProcessing(("b", 1), ("a", 0)), processors.ByteLevel()]
    chains = [[p] for p in first + second] + [list(c) for c in itertools.product(first, second)]
    chains += [[template("a $A"), template("b $A", "$B b $A"), processors.RobertaProcessing(("b", 1), ("a", 0))], [template("a $A"), processors.ByteLevel(), template("b $A", "$B $A")],
               [template("a $A"), processors.RobertaProcessing(("b", 1), ("a", 0)), template("b $A", "$A $B")], [processors.Sequence([template("a $A")]), template("b $A", "$A $B b")]]
    rows = []
    for chain in chains:
        t = Tokenizer(models.WordPiece(VOCABULARY, unk_token="unknown"))
        t.pre_tokenizer, t.post_processor = pre_tokenizers.Whitespace(), processors.Sequence(chain)
        try:
            ids = t.encode("text").ids
        except BaseException as e:
            if "PanicException" not in repr(e):
                raise
            ids = None
        rows.append(json.dumps({"post_processor": json.loads(t.to_str())["post_processor"], "ids": ids}, separators=(",", ":")))
    print("[\n" + ",\n".join(rows) + "\n]")


main()
