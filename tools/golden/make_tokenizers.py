"""Makes tests/golden/tokenizers.json: small tokenizers that between them hold every component that is read here, and what PyPI's tokenizers does with them; tests/golden/jinja.json:
templates and what Jinja as Transformers sets it up makes of them; and tests/golden/bpe_training.json: what tokenizers' own trainer learns.

  python tools/golden/make_tokenizers.py tests/golden         (needs tokenizers, transformers, jinja2)
"""
import collections, json, os, random, sys
import tokenizers
from tokenizers import Regex, Tokenizer, AddedToken, models as M, normalizers as N, pre_tokenizers as P, processors as X, decoders as D, trainers as T

out = sys.argv[1]
r = random.Random(11)
words = "the ravine holds a river and river stones roll down to the sea while wind sings in dry reeds don't can't it's 12 345 2024 a-b c.d naïve café Grün".split()
corpus = [" ".join(r.choice(words) for _ in range(12)) for _ in range(300)] + ["def f(x):\n    return x + 1\n", "山谷里有一条河，河水流向大海。", "안녕하세요 세계", "\U0001F600 emoji \U0001F469\u200d\U0001F680"] * 20
texts = ["", " ", "  ", "the river", " the river", "  the  river ", "a\nb\n", "\n\n x", "\t x\r\n", "don't DON'T it'S 'ſ", "12345 6 78", "山谷里 a 河", "Grün café cafe\u0301 \u00c5 \u212b", "e\u0301\u0327 q\u0307\u0323", "\uff21\uff22 \u2460 \u00bd \ufb01",
         "\U0001F600\U0001F469\u200d\U0001F680!", "안녕 \u1112\u1161\u11ab", "a\x00b\x07", "x\u200by\u00adz\ufeff", "\u3000wide\u00a0space", "A.b,C!d? (e) [f]", "İstanbul ẞ ΣΑΣ", "<s>the</s>", "a <s> b", "[L] x [L]y", "x[R]  y", "whole a whole b awhole", "Special special", "<pad><pad>", "the<pad> sea",
         "x" * 200, "ab" * 150, "=" * 70, "zzz unseen Ω ж 語", "▁mark", "a▁b", "##x", "ない ナイ", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "-a_b-c", "1.5e-3", "snake_case camelCase", "\u1d00\u1d01", "\U0001F1E9\U0001F1EA", "\u0600a\r\n\u0600", "\U00020000\U0002A6D6", "\U000323AF\u0897"]
added = [AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True, normalized=False), AddedToken("<pad>", special=True, normalized=False), AddedToken("[L]", lstrip=True, normalized=False),
         AddedToken("[R]", rstrip=True, normalized=True), AddedToken("whole", single_word=True, normalized=False), AddedToken("Special", normalized=True)]


def rules():
    """A table of replacements as SentencePiece makes it: a darts-clone trie of few keys, built by hand."""
    import sentencepiece as spm, io
    buf = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=buf, vocab_size=150, model_type="bpe", character_coverage=0.99, hard_vocab_limit=False, minloglevel=2, normalization_rule_tsv=RULES)
    from sentencepiece import sentencepiece_model_pb2 as pb
    m = pb.ModelProto()
    m.ParseFromString(buf.getvalue())
    return m.normalizer_spec.precompiled_charsmap


RULES = os.path.join(out, "rules.tsv")
with open(RULES, "w") as f:
    for a, b in (("\uff21", "A"), ("\uff22", "B"), ("\ufb01", "fi"), ("\u00bd", "1/2"), ("e\u0301", "\u00e9"), ("\u3000", " "), ("\u00ad", ""), ("\u212b", "\u00c5")):
        f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
try:
    CHARSMAP = rules()
finally:
    os.remove(RULES)

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
split = lambda rx, how="isolated", invert=False: P.Split(Regex(rx), how, invert)
full = ["%c" % c for c in range(0x21, 0x7F)]


def bpe(pre, norm=None, size=420, alphabet=None, **kw):
    t = Tokenizer(M.BPE(**kw))
    t.pre_tokenizer, t.normalizer = pre, norm or N.Sequence([])
    affixes = {k: kw[k] for k in ("continuing_subword_prefix", "end_of_word_suffix") if k in kw}
    t.train_from_iterator(corpus, T.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=alphabet or [], special_tokens=[kw["unk_token"]] if kw.get("unk_token") else [], **affixes))
    return t


def byte_bpe(pre, norm=None, **kw):
    t = bpe(pre, norm, alphabet=P.ByteLevel.alphabet(), **kw)
    t.decoder = D.ByteLevel()
    return t


def spm_like(pre, norm, unk_fused):
    """BPE with byte fallback as Llama's."""
    t = bpe(P.Metaspace(), size=300, unk_token="<unk>")
    j = json.loads(t.to_str())
    v = j["model"]["vocab"]
    for b in range(256 if unk_fused else 200):
        v.setdefault("<0x%02X>" % b, len(v))
    j["model"].update(byte_fallback=True, fuse_unk=unk_fused)
    t = Tokenizer.from_str(json.dumps(j))
    t.pre_tokenizer, t.normalizer = pre or P.Sequence([]), norm
    return t


def unigram(**kw):
    t = Tokenizer(M.Unigram())
    t.pre_tokenizer = kw.get("pre") or P.Metaspace()
    t.normalizer = kw.get("norm") or N.Sequence([])
    t.train_from_iterator(corpus, T.UnigramTrainer(vocab_size=300, show_progress=False, special_tokens=["<unk>"], unk_token="<unk>"))
    if kw.get("fallback"):
        j = json.loads(t.to_str())
        j["model"]["vocab"] += [["<0x%02X>" % b, 0.0] for b in range(256)]
        j["model"]["byte_fallback"] = True
        t = Tokenizer.from_str(json.dumps(j))
    return t


def word_piece(norm, pre, **kw):
    t = Tokenizer(M.WordPiece(unk_token="[UNK]", **kw))
    t.normalizer, t.pre_tokenizer = norm, pre
    t.train_from_iterator(corpus, T.WordPieceTrainer(vocab_size=300, show_progress=False, special_tokens=["[UNK]", "[CLS]", "[SEP]"]))
    return t


def words(norm, pre):
    """Each word as a whole."""
    t = Tokenizer(M.WordPiece(unk_token="<unk>"))
    t.normalizer, t.pre_tokenizer = norm or N.Sequence([]), pre
    counted = collections.Counter(w for x in corpus + texts for w, _ in t.pre_tokenizer.pre_tokenize_str(t.normalizer.normalize_str(x)))
    vocab = {w: i for i, w in enumerate(["<unk>"] + [w for w, _ in sorted(counted.items(), key=lambda x: (-x[1], x[0]))])}
    t.model = M.WordPiece(vocab, unk_token="<unk>")
    return t


made = {}


def put(name, t, post=None, decoder=None):
    t.add_tokens(added)
    if post:
        t.post_processor = post
    if decoder:
        t.decoder = decoder
    made[name] = t


two = [("<s>", 1), ("</s>", 2)]
put("gpt2", byte_bpe(P.ByteLevel(add_prefix_space=False)), X.ByteLevel())
put("gpt2 prefix", byte_bpe(P.ByteLevel(add_prefix_space=True)), X.RobertaProcessing(("</s>", 2), ("<s>", 1)))
put("llama3", byte_bpe(P.Sequence([split(LLAMA3), P.ByteLevel(False, use_regex=False)]), ignore_merges=True), X.Sequence([X.ByteLevel(), X.TemplateProcessing("<s> $A", "<s> $A <s> $B", two)]))
put("qwen2", byte_bpe(P.Sequence([split(LLAMA3.replace("{1,3}", "")), P.ByteLevel(False, use_regex=False)]), N.NFC()), X.TemplateProcessing("$A </s>", "$A </s> $B </s>", two))
put("o200k", byte_bpe(P.Sequence([split(O200K), P.ByteLevel(False, use_regex=False)])))
put("falcon", byte_bpe(P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(False), P.Digits(False), split("[0-9][0-9][0-9]")])))
put("starcoder", byte_bpe(P.Sequence([P.Digits(True), P.ByteLevel(False)])))
put("removed inverted", byte_bpe(P.Sequence([split(LLAMA3, "removed", True), P.ByteLevel(False, use_regex=False)])))
put("byte normalizer", bpe(split(r"\w+|\W"), N.ByteLevel(), alphabet=P.ByteLevel.alphabet()), None, D.ByteLevel())
put("llama legacy", spm_like(None, N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), True), X.TemplateProcessing("<s> $A", "<s> $A $B", two), D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]))
put("llama first", spm_like(P.Metaspace(prepend_scheme="first", split=False), None, True), None, D.Sequence([D.ByteFallback(), D.Metaspace(prepend_scheme="first")]))
put("few bytes", spm_like(P.Metaspace(prepend_scheme="never"), None, False), None, D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 2, 1)]))
put("fused unknown", bpe(P.Whitespace(), unk_token="<unk>", fuse_unk=True, size=120))
put("affixes", bpe(P.WhitespaceSplit(), N.Lowercase(), unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"), None, D.BPEDecoder("</w>"))
put("unigram", unigram(norm=N.Sequence([N.NFKC(), N.Replace(Regex(" {2,}"), " ")])), X.TemplateProcessing("$A </s>", "$A </s> $B </s>", two), D.Metaspace())
put("unigram rules", unigram(norm=N.Sequence([N.Precompiled(CHARSMAP), N.Strip(True, True)]), pre=P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), fallback=True), None, D.Sequence([D.ByteFallback(), D.Metaspace()]))
put("bert", word_piece(N.BertNormalizer(), P.BertPreTokenizer()), X.BertProcessing(("[SEP]", 2), ("[CLS]", 1)), D.WordPiece())
put("bert cased", word_piece(N.BertNormalizer(lowercase=False, strip_accents=True, clean_text=False), P.BertPreTokenizer(), max_input_chars_per_word=20), X.BertProcessing(("[SEP]", 2), ("[CLS]", 1)), D.WordPiece(cleanup=False))
put("words", words(N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]), P.Whitespace()))
put("words nfkd", words(N.NFKD(), P.Sequence([P.CharDelimiterSplit("e"), P.Punctuation("removed"), P.WhitespaceSplit()])), None, D.Fuse())
for how in ("merged_with_previous", "merged_with_next", "contiguous", "isolated", "removed"):
    put("split " + how, words(None, split(r"\d|\s", how)), None, D.Fuse())
put("split text", words(None, P.Sequence([P.Split("ri", "merged_with_next"), P.Split(" ", "removed", False)])))
put("split invert", words(None, split(r"[a-z]+", "contiguous", True)), None, D.Sequence([D.Fuse(), D.Replace(Regex("e+"), "E"), D.Replace("the", "DER")]))
put("scripts", words(None, P.Sequence([P.UnicodeScripts(), P.FixedLength(7)])))
put("no pre-tokenizer", bpe(P.Metaspace(), unk_token="<unk>", size=200))

rows = []
for name, t in made.items():
    j = json.loads(t.to_str())
    # The trainers walk hash maps: entries in a fixed order make small diffs. The ids are what they are.
    if isinstance(j["model"]["vocab"], dict):
        j["model"]["vocab"] = dict(sorted(j["model"]["vocab"].items(), key=lambda x: x[1]))
    t = Tokenizer.from_str(json.dumps(j))
    size = t.get_vocab_size()
    encode = [[t.encode(x, add_special_tokens=False).ids, t.encode(x).ids] for x in texts]
    ids = [a for a, _ in encode if a] + [[r.randrange(size) for _ in range(r.randint(1, 10))] for _ in range(25)]
    decode = []
    for i in ids:
        try:
            decode.append([i, t.decode(i, skip_special_tokens=False), t.decode(i)])
        except BaseException as e:  # Strip panics there when it cuts more than there is
            if "PanicException" not in repr(e):
                raise
    rows.append(dict(name=name, tokenizer=j, encode=encode, decode=decode))
json.dump(dict(tokenizers=tokenizers.__version__, texts=texts, rows=rows), open(os.path.join(out, "tokenizers.json"), "w"), separators=(",", ":"), ensure_ascii=True)

# ---------------------------------------------------------------- training
cases = []
for name, pre, frequency, size in (("gpt2", P.ByteLevel(False), 2, 600), ("llama3", P.Sequence([split(LLAMA3), P.ByteLevel(False, use_regex=False)]), 1, 900)):
    t = Tokenizer(M.BPE())
    t.pre_tokenizer = pre
    t.train_from_iterator(corpus, T.BpeTrainer(vocab_size=size, min_frequency=frequency, show_progress=False, initial_alphabet=P.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"]))
    cases.append(dict(pattern=name, min_frequency=frequency, size=size, model=json.loads(t.to_str())["model"]["merges"]))
json.dump(dict(corpus=corpus, cases=cases), open(os.path.join(out, "bpe_training.json"), "w"), separators=(",", ":"))

# ---------------------------------------------------------------- templates
from transformers.utils.chat_template_utils import _compile_jinja_template
TEMPLATES = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates.txt"), encoding="utf-8").read().split("\n=====\n")
MESSAGES = [[dict(role="user", content=" Hi\n there ")], [dict(role="system", content="Be <b>kind</b> & 'short'."), dict(role="user", content="Wie geht's? 你好"), dict(role="assistant", content="Gut!", tool_calls=[dict(name="f", arguments=dict(x=1, y=[1.5, None, True]))]), dict(role="user", content="Bye")]]
rows = []
for t in TEMPLATES:
    for k, messages in enumerate(MESSAGES):
        try:
            text = dict(text=_compile_jinja_template(t).render(messages=messages, tools=None, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>"))
        except Exception as e:
            text = dict(error=type(e).__name__)
        rows.append(dict(template=t, messages=k, **text))
json.dump(dict(messages=MESSAGES, rows=rows), open(os.path.join(out, "jinja.json"), "w"), separators=(",", ":"))
