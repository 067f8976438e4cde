"""Makes tests/golden/tokenizer: a small SentencePiece model and what Transformers' LlamaTokenizer (backed by sentencepiece) does with it.

Needs transformers 4.46 (the last line whose LlamaTokenizer is backed by sentencepiece) and sentencepiece:
  pip install transformers==4.46.3 sentencepiece protobuf && python tools/golden/tokenizer.py tests/golden/tokenizer
"""
import io, json, os, random, sys
import sentencepiece as spm
from transformers import LlamaTokenizer, __version__

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
words = "the ravine holds a river and river stones roll down to the sea while wind sings in dry reeds 12 345 a-b c.d don't can't".split()
r = random.Random(1)
lines = [" ".join(r.choice(words) for _ in range(12)) for _ in range(400)] + ["def f(x):", "    return x", "das Grün é 山谷"] * 20

models = {
    "llama": dict(normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True),
    "nfkc": dict(normalization_rule_name="nmt_nfkc"),
}
for name, extra in models.items():
    buf = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=buf, vocab_size=420, model_type="bpe", byte_fallback=True, split_digits=True, hard_vocab_limit=False,
                                   character_coverage=0.999, num_threads=1, minloglevel=2, **extra)
    os.makedirs(os.path.join(out, name), exist_ok=True)
    open(os.path.join(out, name, "tokenizer.model"), "wb").write(buf.getvalue())

added = {
    "500": dict(content="<pad>", lstrip=False, rstrip=False, normalized=False, single_word=False, special=True),
    "501": dict(content="<|tool|>", lstrip=False, rstrip=False, normalized=False, single_word=False, special=False),
    "502": dict(content="[L]", lstrip=True, rstrip=False, normalized=False, single_word=False, special=False),
    "503": dict(content="[R]", lstrip=False, rstrip=True, normalized=False, single_word=False, special=False),
    "504": dict(content="whole", lstrip=False, rstrip=False, normalized=False, single_word=True, special=False),
    "505": dict(content="[R][R]", lstrip=False, rstrip=False, normalized=False, single_word=False, special=False),
    "0": dict(content="<unk>", lstrip=False, rstrip=False, normalized=False, single_word=False, special=True),
    "1": dict(content="<s>", lstrip=False, rstrip=False, normalized=False, single_word=False, special=True),
    "2": dict(content="</s>", lstrip=False, rstrip=False, normalized=False, single_word=False, special=True),
}
texts = ["", " ", "  ", "the river", " the river", "  the  river ", "a\nb\n", "\n", "\t x", "<s>the</s>", "the <s> river", " <s> ", "<s><s>", "</s> the", "the<pad>sea<pad>", "x<|tool|>y", "x <|tool|> y",
         "a [L] b", "a  [L]  b", "a [R] b", "a  [R]  b", "[R][R] a", "[R] [L]", "whole", "a whole b", "awhole b", "a wholeb", "whole whole", "\u2581the", "a\u2581b", "\u2581", "<unk> a", "Gr\u00fcn \u00e9 \u5c71\u8c37",
         "\U0001f600 emoji", "12345", "\u3000[L]\u3000x", "\u00a0<s>\u00a0", "a\x00b", "<s>", "<s> ", "<s>  the", "the <s>", "<0x41> <unk>", "e\u0301 \uff21"]
result = {"transformers": __version__, "texts": texts, "variants": []}
for name in models:
    for legacy in (True, False):
        for flags in ({}, {"add_bos_token": False, "add_eos_token": True}, {"add_prefix_space": False}):
            d = os.path.join(out, name)
            config = dict(legacy=legacy, tokenizer_class="LlamaTokenizer", pad_token="<pad>", added_tokens_decoder=added, clean_up_tokenization_spaces=False, **flags)
            json.dump(config, open(os.path.join(d, "tokenizer_config.json"), "w"))
            t = LlamaTokenizer.from_pretrained(d)
            size = t.sp_model.get_piece_size()
            rows = [dict(plain=t.encode(x, add_special_tokens=False), special=t.encode(x)) for x in texts]
            rng, decodes = random.Random(7), []
            for _ in range(60):
                ids = [rng.choice([rng.randrange(size), rng.randrange(3, 259), rng.randrange(259, size), rng.choice([0, 1, 2, 500, 501, 502, 504])]) for _ in range(rng.randrange(1, 9))]
                decodes.append(ids)
            decodes += [x["special"] for x in rows]
            decodes = [dict(ids=ids, keep=t.decode(ids), skip=t.decode(ids, skip_special_tokens=True)) for ids in decodes if ids]
            result["variants"].append(dict(model=name, config=config, size=len(t), encode=rows, decode=decodes))
            os.remove(os.path.join(d, "tokenizer_config.json"))
for name in models:
    sp = spm.SentencePieceProcessor(model_file=os.path.join(out, name, "tokenizer.model"))
    result.setdefault("raw", {})[name] = [dict(ids=sp.encode(x), text=sp.decode(sp.encode(x))) for x in texts]
json.dump(result, open(os.path.join(out, "expected.json"), "w"), separators=(",", ":"))
