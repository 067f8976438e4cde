"""`ravine serve`: answers over HTTP are those of `generate`, whole and streamed, alone and side by side; adapters are models of their own; wrong requests, hostile clients
and clients that leave harm nobody; a signal lets answers under way end."""
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import ravine_run as r
from adapters import KINDS, named, train_adapters
from ravine_run import check
from chat_prompts import answers, chat_model, ids_of

KEY = "secret-of-the-test"


class Server:
    def __init__(self, model, *flags, key=KEY):
        words = ["serve", "--model", model, "--port", 0, *(["--api-key", key] if key else []), *flags]
        self.process = subprocess.Popen(r.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.key, self.said = key, ""
        while not (line := re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.said)):
            ready = select.select([self.process.stdout], [], [], r.LIMIT)[0]
            more = self.process.stdout.readline() if ready else ""
            check(more, f"no server: {self.said}")
            self.said += more
        self.port = int(line[1])

        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.said += line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, body=None, key=None, headers=None):
        """(status, headers, the parsed body or its text)"""
        h = http.client.HTTPConnection("127.0.0.1", self.port, timeout=r.LIMIT)
        raw = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        h.request(method, path, raw, {"Authorization": f"Bearer {self.key if key is None else key}"} | (headers or {}))
        a = h.getresponse()
        text = a.read().decode()
        h.close()
        return a.status, dict(a.getheaders()), json.loads(text) if a.getheader("Content-Type", "").startswith("application/json") else text

    def post(self, path, **body):
        status, _, a = self.ask("POST", path, {"temperature": 0} | body)
        check(status == 200, f"{path} {body}: {status} {a}")
        return a

    def text(self, prompt, **body):
        return self.post("/v1/completions", prompt=prompt, **body)["choices"][0]["text"]

    def events(self, path, **body):
        status, headers, text = self.ask("POST", path, {"temperature": 0, "stream": True} | body)
        check(status == 200 and headers["Content-Type"] == "text/event-stream" and text.endswith("data: [DONE]\n\n"), f"{status} {headers} {text[-80:]}")
        return [json.loads(e[6:]) for e in text.split("\n\n") if e and e != "data: [DONE]"]

    def raw(self, data, seconds=r.LIMIT):
        """What the server says to these bytes before it closes the connection, or the time is over."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            said = b""
            try:
                s.sendall(data)
                while more := s.recv(65536):
                    said += more
            except OSError:
                pass
            return said.decode("utf-8", "replace")

    def metric(self, name):
        text = self.ask("GET", "/metrics", key="")[2]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(name + r"[ {]", line))


def at_once(jobs):
    out = [None] * len(jobs)

    def run(i):
        out[i] = jobs[i]()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


def raw_bytes(name):
    """Of a token in the form of completions."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), name[6:].encode()) if name.startswith("bytes:") else name.encode()


def test_answers_are_those_of_generate(folder):
    model = chat_model(folder)
    prompts = ["The ravine", "is deep", "The river runs below", "and", "The"]
    (folder / "p.txt").write_text("".join(p + "\n" for p in prompts))
    base = ["generate", "--model", model, "--max-new-tokens", 12, "--json"]
    wanted = answers(r.run(*base, "--prompts", folder / "p.txt").stdout)
    chat = answers(r.run(*base, "--chat", "--prompt", "Who?").stdout)[0]
    with Server(model, "--max-batch", 3) as s:
        status, _, models = s.ask("GET", "/v1/models")
        check(status == 200 and [m["id"] for m in models["data"]] == ["run"] and models["data"][0]["max_model_len"] == 256, models)
        ask = [lambda p=p: s.post("/v1/completions", prompt=p, max_tokens=12) for p in prompts] * 3
        for got, w in zip(at_once(ask), wanted * 3):
            check(got["choices"][0]["text"] == w["text"] and got["usage"]["completion_tokens"] == len(w["ids"]) and got["usage"]["prompt_tokens"] == len(w["prompt_ids"]), f"{got} {w}")
        several = s.post("/v1/completions", prompt=prompts, max_tokens=12)["choices"]
        check([c["text"] for c in several] == [w["text"] for w in wanted] and [c["index"] for c in several] == list(range(len(prompts))), several)
        check(s.text(wanted[0]["prompt_ids"], max_tokens=12) == wanted[0]["text"], "a prompt of ids")
        streamed = s.events("/v1/completions", prompt=prompts[2], max_tokens=12, stream_options={"include_usage": True})
        check("".join(c["text"] for e in streamed for c in e["choices"]) == wanted[2]["text"] and len(streamed) > 3, streamed)
        check(streamed[-1]["usage"]["completion_tokens"] == len(wanted[2]["ids"]) and streamed[-1]["choices"] == [], streamed[-1])
        got = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "Who?"}], max_tokens=12)
        check(got["choices"][0]["message"] == {"role": "assistant", "content": chat["text"]}, f"{got} {chat}")
        parts = s.post("/v1/chat/completions", messages=[{"role": "user", "content": [{"type": "text", "text": "Wh"}, {"type": "text", "text": "o?"}]}], max_tokens=12)
        check(parts["choices"] == got["choices"], parts)
        streamed = s.events("/v1/chat/completions", messages=[{"role": "user", "content": "Who?"}], max_tokens=12)
        check("".join(c["delta"].get("content", "") for e in streamed for c in e["choices"]) == chat["text"] and streamed[0]["choices"][0]["delta"]["role"] == "assistant", streamed)
        whole = wanted[0]["text"]
        stop = whole[3:6]
        cut = s.post("/v1/completions", prompt=prompts[0], max_tokens=12, stop=["never met", stop])["choices"][0]
        check(cut["text"] == whole[:whole.index(stop)] and cut["finish_reason"] == "stop", f"{stop!r} {cut}")
        scores = s.post("/v1/completions", prompt=prompts[0], max_tokens=12, logprobs=3)["choices"][0]["logprobs"]
        check(abs(sum(scores["token_logprobs"]) - wanted[0]["logprob"]) < 1e-6 * len(scores["tokens"]) and b"".join(map(raw_bytes, scores["tokens"])).decode("utf-8", "replace").startswith(whole), f"{scores} {wanted[0]}")
        check(all(max(top.values()) == p and len(top) == 3 for top, p in zip(scores["top_logprobs"], scores["token_logprobs"])), "greedy takes the first of the best")


def test_draws(folder):
    """Equal seeds give equal texts, whatever else is answered; the choices of a request differ; those of generate with that seed are the same."""
    model = chat_model(folder)
    ask = {"prompt": "The ravine", "max_tokens": 10, "temperature": 1.0}
    with Server(model, "--max-batch", 4) as s:
        def texts(**more):
            return [c["text"] for c in s.post("/v1/completions", **ask, **more)["choices"]]
        one, other, three = texts(seed=5), texts(seed=6), texts(seed=5, n=3)
        check(one != other and len(set(three)) == 3 and three[0] == one[0], f"{one} {other} {three}")
        check(at_once([lambda: texts(seed=5)] * 4 + [lambda: texts(seed=6)] * 4 + [lambda: texts(seed=5, n=3)]) == [one] * 4 + [other] * 4 + [three], "among others")
        check(texts() != texts() or texts() != texts(), "without a seed")
        told = answers(r.run("generate", "--model", model, "--prompt", "The ravine", "--max-new-tokens", 10, "--sample", "--top-k", 0, "--seed", 5, "--json").stdout)[0]["text"]
        check(told == one[0], f"{told!r} {one}")
        check(s.text("The ravine", max_tokens=10, temperature=1, min_p=1.0, seed=1) == s.text("The ravine", max_tokens=10), "min_p of 1")


def test_adapters_are_models(folder):
    model = chat_model(folder)
    kinds = {k: KINDS[k] for k in ("poet", "clerk")}  # one shares batches with the base, one has whole modules
    adapters = train_adapters(folder, model, kinds)
    base = ["generate", "--model", model, "--max-new-tokens", 8, "--json", "--prompt", "The river"]
    wanted = {None: answers(r.run(*base).stdout)[0]["text"]} | {k: answers(r.run(*base, "--adapter", a).stdout)[0]["text"] for k, a in adapters.items()}
    check(len(set(wanted.values())) == 3, wanted)
    with Server(model, *named(adapters)) as s:
        check({m["id"] for m in s.ask("GET", "/v1/models")[2]["data"]} == {"run", *kinds}, "names")
        names = [None, "poet", "clerk"] * 3
        got = at_once([lambda n=n: s.text("The river", max_tokens=8, **({"model": n} if n else {})) for n in names])
        check(got == [wanted[n] for n in names], f"{got} {wanted}")


def test_what_is_refused(folder):
    model = chat_model(folder)
    talk = [{"role": "user", "content": "Who?"}]
    wrong = [  # (route, body, status, what the message or param says)
        ("completions", b"{", 400, "JSON"), ("completions", b"[" * 100000, 400, "JSON"), ("completions", b'{"prompt": "\xff"}', 400, "JSON"), ("completions", [], 400, "object"),
        ("completions", {}, 400, "prompt"), ("completions", {"prompt": []}, 400, "prompt"), ("completions", {"prompt": [1, "a"]}, 400, "prompt"),
        ("completions", {"prompt": [999999]}, 400, "999999"), ("completions", {"prompt": "a", "max_tokens": 0}, 400, "max_tokens"), ("completions", {"prompt": "a", "max_tokens": 999}, 400, "positions"),
        ("completions", {"prompt": "a", "temperature": -1}, 400, "temperature"), ("completions", {"prompt": "a", "top_p": 2}, 400, "top_p"), ("completions", {"prompt": "a", "n": 129}, 400, "n"),
        ("completions", {"prompt": ["a"] * 100, "n": 2}, 400, "prompt"), ("completions", {"prompt": "a", "stop": ""}, 400, "stop"), ("completions", {"prompt": "a", "stop": ["x"] * 99}, 400, "stop"),
        ("completions", {"prompt": "a", "echo": True}, 400, "echo"), ("completions", {"prompt": "a", "temprature": 1}, 400, "temprature"), ("completions", {"prompt": "a", "logit_bias": {"x": 1}}, 400, "logit_bias"),
        ("completions", {"prompt": "a", "logit_bias": {"999999": 1}}, 400, "logit_bias"), ("completions", {"prompt": "a", "model": "other"}, 404, "model"),
        ("chat/completions", {"messages": []}, 400, "messages"), ("chat/completions", {"messages": [{"content": "x"}]}, 400, "messages"), ("chat/completions", {"messages": talk, "tools": [{}]}, 400, "tools"),
        ("chat/completions", {"messages": [*talk, {"role": "assistant", "content": "", "tool_calls": "f()"}]}, 400, "messages"),
        ("completions", b'{"prompt": "a", "seed": 18446744073709551616}', 400, "'seed': it must be a whole number"), ("completions", b'{"prompt": "a", "max_tokens": ' + b"9" * 400 + b"}", 400, "'max_tokens': it must be a whole number"),
        ("completions", b'{"prompt": "a\\"1e999", "temperature": -1e999}', 400, "'temperature': it must be a number"), ("completions", b'{"prompt": [1, 100000000000000000000]}', 400, "'prompt': ids are whole numbers"),
        ("chat/completions", b'{"messages": [{"role": "user", "content": "a"}], "seed": -9223372036854775809}', 400, "'seed': it must be a whole number"), ("completions", b'{"prompt": "a", "seed": 01}', 400, "JSON"),
        ("completions", b'{"prompt": "a", "seed": ' + b"0" * 200000 + b"}", 400, "JSON"), ("chat/completions", {"messages": talk, "top_logprobs": 2}, 400, "top_logprobs"), ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages")]
    with Server(model) as s:
        for route, body, status, words in wrong:
            got, _, a = s.ask("POST", "/v1/" + route, body)
            check(got == status and set(a["error"]) == {"message", "type", "param", "code"} and words in a["error"]["message"], f"{str(body)[:80]}: {got} {a}")
        for method, path, status in (("GET", "/v1/completions", 405), ("POST", "/v1/models", 405), ("GET", "/none", 404), ("PUT", "/v1/completions", 405), ("DELETE", "/", 405)):
            got, _, a = s.ask(method, path, b"" if method != "GET" else None)
            check(got == status and a["error"]["message"], f"{method} {path}: {got} {a}")
        for key in ("", "wrong", KEY + "x", KEY[:-1]):
            check(s.ask("GET", "/v1/models", key=key)[0] == 401 and s.ask("POST", "/v1/completions", {"prompt": "a"}, key=key)[0] == 401, key)
        check(s.ask("GET", "/health", key="")[0] == 200 and "ravine" in s.ask("GET", "/", key="")[2].lower(), "what needs no key")
        told = r.run("serve", "--model", model, "--port", s.port, status=2).stderr
        check("nothing can listen there" in told and str(s.port) in told, told)
        check(s.text("The ravine", max_tokens=3) is not None, "and it goes on")
    check(KEY not in s.said, "a key is in no log")


def test_hostile_clients(folder):
    model = chat_model(folder)
    post = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
    body = json.dumps({"prompt": "The", "max_tokens": 2, "temperature": 0}).encode()
    with Server(model, "--max-body", 1) as s:
        whole = s.text("The", max_tokens=2)
        cases = [  # (bytes, status)
            (b"hello\r\n\r\n", 400), (b"GET  / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/9.9\r\n\r\n", 505), (b"GET http://x/ HTTP/1.1\r\n\r\n", 400), (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n\r\n", 414),
            (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431), (b"GET / HTTP/1.1\r\nA: " + b"b" * 40000 + b"\r\n\r\n", 431), (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nA\x00: b\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 400), (b"BREW / HTTP/1.1\r\n\r\n", 405),
            ((post + "Content-Length: -1\r\n\r\n").encode(), 400), ((post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n").encode(), 400),
            ((post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n").encode(), 400), ((post + "Transfer-Encoding: gzip, chunked\r\n\r\n").encode(), 501),
            ((post + "Content-Length: 99999999999999999999\r\n\r\n").encode(), 413), ((post + "Content-Length: 2000000\r\n\r\n").encode() + b"{" * 1000, 413),
            ((post + "Transfer-Encoding: chunked\r\n\r\n").encode() + (b"40000\r\n" + b" " * 0x40000 + b"\r\n") * 8, 413)]
        for (data, status), said in zip(cases, at_once([lambda data=data: s.raw(data) for data, _ in cases])):
            check(said.startswith(f"HTTP/1.1 {status} ") or (status == 413 and said == ""), f"{data[:80]!r}: {said[:120]!r}, not {status}")
        chunks = b"".join(b"%x\r\n%s\r\n" % (1, body[i:i + 1]) for i in range(len(body))) + b"0\r\n\r\n"
        said = s.raw((post + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n").encode() + chunks)
        check(" 200 " in said and json.loads(said[said.index("{"):])["choices"][0]["text"] == whole, said[:200])
        ranges = "Range: bytes=" + ",".join("0-1" for _ in range(2000)) + "\r\n"
        said = s.raw((post + ranges + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
        check(" 200 " in said and whole in said, said[:200])
        # Many that say nothing, or half of something.
        silent = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(200 if r.FULL else 32)]  # more than there are places wait for one, up to 20 s
        for i, c in enumerate(silent):
            c.sendall([b"", b"POST /v1/comp", (post + "Content-Length: 100\r\n\r\n{").encode(), b"\r"][i % 4])
        began = time.time()
        check(s.text("The", max_tokens=2) == whole and time.time() - began < (20 if r.FULL else r.LIMIT), f"{time.time() - began} s")
        for c in silent:
            c.close()
        check(s.text("The", max_tokens=2) == whole, "after them")


def spoiled(folder, model, token):
    """A copy of the model in which one token has an embedding of NaN."""
    bad = folder / "spoiled"
    shutil.copytree(model, bad)
    header, body = r.load_raw(bad / "model.safetensors")
    table, body = header["model.embed_tokens.weight"], bytearray(body)
    begin, end = table["data_offsets"]
    row = (end - begin) // table["shape"][0]
    body[begin + token * row:begin + (token + 1) * row] = b"\xff" * row
    r.save_raw(bad / "model.safetensors", header, bytes(body))
    return bad


def test_one_of_a_batch_fails_alone(folder):
    """A request whose logits become NaN ends by itself: its neighbours say what they say without it, whole and streamed."""
    model = chat_model(folder)
    token = 517
    bad = spoiled(folder, model, token)
    with Server(bad, "--max-batch", 4) as s:
        ask = {"prompt": "The ravine", "max_tokens": 60, "logprobs": 1}
        alone = s.post("/v1/completions", **ask)["choices"]
        def fails(**more):
            return s.ask("POST", "/v1/completions", {"prompt": [5, token], "max_tokens": 3} | more)
        def streamed():
            return "".join(c["text"] for e in s.events("/v1/completions", **ask) for c in e["choices"])
        jobs = [lambda: s.post("/v1/completions", **ask)["choices"], streamed, fails, lambda: fails(stream=True), lambda: fails(temperature=1.0, seed=3)]
        whole, text, one, stream, drawn = at_once(jobs)
        check(whole[0]["text"] == alone[0]["text"] and whole[0]["logprobs"]["tokens"] == alone[0]["logprobs"]["tokens"], f"whole: {whole} {alone}")
        check(text == alone[0]["text"], f"streamed: {text!r} {alone[0]['text']!r}")
        for status, _, a in (one, drawn):
            check(status == 500 and "of the request" in a["error"]["message"] and "nan" in a["error"]["message"] and a["error"]["type"] == "server_error", f"{status} {a}")
        check(stream[0] == 200 and "nan" in stream[2] and "server_error" in stream[2], stream)
        status, _, a = fails(prompt=["The", "The river"])
        check(status == 200, a)
        status, _, a = fails(prompt=[[5], [5, token]])
        check(status == 500 and "prompt 2 of the request" in a["error"]["message"], a)
        check(s.post("/v1/completions", **ask)["choices"][0]["text"] == alone[0]["text"], "the next one")
    (folder / "ids.json").write_text(json.dumps([[5], [5, token], [6]]))
    done = r.run("generate", "--model", bad, "--prompt-ids", folder / "ids.json", "--max-new-tokens", 4, "--json", status=1)
    told = answers(done.stdout)
    check([t["finish"] == "error" for t in told] == [False, True, False] and len(told[2]["ids"]) == 4 and "nan" in told[1]["error"], told)
    check("1 of 3 prompts failed" in done.stderr and "prompt 2" in done.stderr, done.stderr)


def wait_for(condition, text):
    until = time.time() + r.LIMIT
    while not condition():
        check(time.time() < until, text)
        time.sleep(0.01)


def endless(folder):
    """A model that goes on for very long: its end token is never the most likely one."""
    model = chat_model(folder)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 20000}))
    (model / "generation_config.json").write_text(json.dumps({"eos_token_id": 1}))
    (model / ".ravine").unlink(missing_ok=True)
    return model, {"prompt": "The", "max_tokens": 15000, "temperature": 0, "logit_bias": {str(ids_of(model, "the river")[-1]): 100}}


def begin(s, body):
    """A stream of which the first piece has come."""
    h = http.client.HTTPConnection("127.0.0.1", s.port, timeout=r.LIMIT)
    h.request("POST", "/v1/completions", json.dumps(body | {"stream": True}), {"Authorization": f"Bearer {s.key}"})
    a = h.getresponse()
    check(a.status == 200 and a.readline().startswith(b"data: "), a.status)
    return h, a


def test_clients_that_leave(folder):
    model, body = endless(folder)
    with Server(model, "--max-batch", 2, "--max-queue", 1) as s:
        streams = [begin(s, body), begin(s, body)]
        whole = socket.create_connection(("127.0.0.1", s.port))  # waits for a place
        raw = json.dumps(body).encode()
        whole.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw)
        wait_for(lambda: s.metric("ravine_requests_waiting") == 1, "one waits")
        check(s.metric("ravine_requests_running") == 2, "two run")
        status, _, a = s.ask("POST", "/v1/completions", body)
        check(status == 503 and "waiting" in a["error"]["message"], f"{status} {a}")
        whole.close()
        wait_for(lambda: s.metric("ravine_requests_waiting") == 0, "whoever waits may leave")
        for h, a in streams:
            h.sock.shutdown(socket.SHUT_RDWR) if h.sock else None
            a.close()
            h.close()
        wait_for(lambda: s.metric("ravine_requests_running") == 0, "their places are free")
        check(s.metric("ravine_generated_tokens_total") < 30000, "the rest was not written")
        check(s.text("The", max_tokens=3) is not None, "the next one is answered")


def test_a_request_has_its_time(folder):
    model, body = endless(folder)
    with Server(model, "--time-limit", 1) as s:
        status, _, a = s.ask("POST", "/v1/completions", body)
        check(status == 503 and "time" in a["error"]["message"], f"{status} {str(a)[:200]}")
        wait_for(lambda: s.metric("ravine_requests_running") == 0, "its place is free")


def test_a_signal_lets_answers_end(folder):
    model, body = endless(folder)
    for number in (signal.SIGTERM, signal.SIGINT) if r.FULL else (signal.SIGTERM,):
        with Server(model) as s:
            h, a = begin(s, body | {"max_tokens": 8000 if r.FULL else 2500})
            s.process.send_signal(number)
            wait_for(lambda: s.ask("POST", "/v1/completions", {"prompt": "The", "max_tokens": 1})[0] == 503, "no new ones")
            events = a.read().split(b"\n\n")
            check(events[-2] == b"data: [DONE]", events[-3:])
            check(s.process.wait(r.LIMIT) == 0, s.process.returncode)


def chain_model(folder, chain, byte_fallback=False, template=None):
    """A model that answers <|end|> with these tokens one after another. A token is bytes, or with byte_fallback a text of its vocabulary."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) if b in kept else None for b in range(256)}
    for i, b in enumerate(b for b in range(256) if b not in kept):
        letters[b] = chr(256 + i)
    words = ["<unk>", *("<0x%02X>" % b for b in range(256)), *"abcdefghijklmnopqrstuvwxyz▁"] if byte_fallback else [letters[b] for b in range(256)]
    specials = ["<s>", "</s>", "<|end|>"]
    ids = {w: i for i, w in enumerate([*words, *specials])}
    names = [x if byte_fallback else "".join(letters[b] for b in x) for x in chain]
    for x in names:
        ids.setdefault(x, len(ids))
    walk = [ids["<|end|>"], *(ids[x] for x in names), ids["</s>"]]
    after = dict(zip(walk, walk[1:]))
    size = len(ids)
    wide = (size + 7) // 8 * 8
    one = struct.pack("<f", 1)

    def table(rows, ones=()):
        """Zeros, but for ones at (row, column)."""
        out = bytearray(4 * rows * wide)
        for row, column in ones:
            out[4 * (row * wide + column):4 * (row * wide + column) + 4] = one
        return [rows, wide], bytes(out)
    p, norm = "model.layers.0.", ([wide], one * wide)
    tensors = {"model.embed_tokens.weight": table(size, ((i, i) for i in range(size))), "lm_head.weight": table(size, ((after.get(i, ids["</s>"]), i) for i in range(size))), "model.norm.weight": norm,
               **{f"{p}self_attn.{n}_proj.weight": table(wide) for n in "qkvo"}, p + "mlp.gate_proj.weight": table(8), p + "mlp.up_proj.weight": table(8),
               p + "mlp.down_proj.weight": ([wide, 8], bytes(32 * wide)), p + "input_layernorm.weight": norm, p + "post_attention_layernorm.weight": norm}
    folder.mkdir()
    header, body = {}, b""
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    r.save_raw(folder / "model.safetensors", header, body)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": size, "hidden_size": wide, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "bos_token_id": ids["<s>"], "eos_token_id": ids["</s>"]}))
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    fallback = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    prepend = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    added = [{"id": ids[s], "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for s in specials]
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "truncation": None, "padding": None, "post_processor": None, "normalizer": prepend if byte_fallback else None,
        "pre_tokenizer": None if byte_fallback else level, "added_tokens": added, "decoder": fallback if byte_fallback else level,
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>" if byte_fallback else None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": byte_fallback,
                  "byte_fallback": byte_fallback, "vocab": ids, "merges": []}}))
    template = template or "{% for m in messages %}{{ m.content }}{% endfor %}<|end|>"
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "chat_template": template}))
    return ids


def test_a_token_is_bytes(folder):
    """Log-probabilities tell each token's own bytes, and its place in the text in characters, whole and streamed; those of a text put together are the text."""
    chain = [b" \xf0\x9f\x91", b"\x8b", b" caf\xc3", b"\xa9", b"\xe4\xb8", b"\xad", b"ok"]
    ids = chain_model(folder / "bytes", chain)
    places = [(0,), (1, 2), (2,), (6, 7), (7,), (7, 8), (8,)]
    with Server(folder / "bytes", key="") as s:
        c = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "hi"}], logprobs=True, top_logprobs=2)["choices"][0]
        told = c["logprobs"]["content"][:len(chain)]
        check([x["bytes"] for x in told] == [list(b) for b in chain] == [x["top_logprobs"][0]["bytes"] for x in told], told)
        check(b"".join(bytes(x["bytes"]) for x in told).decode() == c["message"]["content"], c)
        ask = {"prompt": [ids["<|end|>"]], "max_tokens": 20, "logprobs": 1}
        whole = s.post("/v1/completions", **ask)["choices"][0]["logprobs"]
        check(all(at in p for at, p in zip(whole["text_offset"], places)) and whole["text_offset"][7] == 10, whole)
        check(whole["tokens"][:2] == ["bytes: \\xf0\\x9f\\x91", "bytes:\\x8b"] and whole["tokens"][6] == "ok", whole["tokens"])
        parts = [e["choices"][0]["logprobs"] for e in s.events("/v1/completions", **ask)]
        check([at for p in parts if p for at in p["text_offset"]] == whole["text_offset"] and [x for p in parts if p for x in p["tokens"]] == whole["tokens"], parts)
        cut = s.post("/v1/completions", prompt=[ids["<|end|>"]], max_tokens=20, stop="f\u00e9")["choices"][0]
        check(cut["text"] == " \U0001f44b ca" and cut["finish_reason"] == "stop", cut)
    ids = chain_model(folder / "fallback", ["▁hello", "<0xF0>", "<0x9F>", "<0x91>", "<0x8B>", "▁x"], byte_fallback=True)
    with Server(folder / "fallback", key="") as s:
        def content(prompt):
            c = s.post("/v1/completions", prompt=prompt, max_tokens=20, logprobs=1)["choices"][0]
            m = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "hi" if len(prompt) > 1 else ""}], logprobs=True)["choices"][0]
            return c, m["logprobs"]["content"][:6]
        # At the start of a text the tokenizer leaves the blank out; behind one it is there.
        c, told = content([ids["<|end|>"]])
        check(c["text"] == "hello\U0001f44b x" and c["logprobs"]["tokens"][0] == "hello" and c["logprobs"]["text_offset"][1] == 5, c)
        c, told = content([ids["a"], ids["<|end|>"]])
        check(c["text"] == " hello\U0001f44b x" and c["logprobs"]["tokens"][0] == "hello" and c["logprobs"]["text_offset"][:2] == [0, 6], c)
        check([x["bytes"] for x in told] == [list(b" hello"), [0xf0], [0x9f], [0x91], [0x8b], list(b" x")], told)
    # Of a run of bytes that is no text each is a character, which is known at its end.
    for name, run, wanted in (("broken", ["<0xF0>", "<0x9F>", "▁x", "▁y"], [0, 5, 6, 7, 9]), ("twice", ["<0xE4>", "<0xB8>", "<0xAD>", "<0x41>", "<0xFF>", "▁y"], [0, 5, 6, 7, 8, 9, 10])):
        ids = chain_model(folder / name, ["▁hello", *run], byte_fallback=True)
        with Server(folder / name, key="") as s:
            ask = {"prompt": [ids["<|end|>"]], "max_tokens": 20, "logprobs": 1}
            c = s.post("/v1/completions", **ask)["choices"][0]
            check(c["logprobs"]["text_offset"][:len(wanted)] == wanted and c["text"] == "hello" + "\ufffd" * sum(x.startswith("<0x") for x in run) + "".join(x.replace("▁", " ") for x in run if "▁" in x), c)
            parts = [at for e in s.events("/v1/completions", **ask) if e["choices"][0]["logprobs"] for at in e["choices"][0]["logprobs"]["text_offset"]]
            check(parts[len(wanted) - 1] == wanted[-1], parts)
            cut = s.post("/v1/completions", **{**ask, "max_tokens": 3})["choices"][0]
            check(cut["text"] == "hello\ufffd\ufffd" and cut["logprobs"]["text_offset"] == [0, 5, 6], cut)


def test_fields_of_messages_reach_the_template(folder):
    """As `tokenizer render` and `chat` have them."""
    template = ("{% for m in messages %}<|end|>{% if m.reasoning_content %}(({{ m.reasoning_content }})){% endif %}{% if m.mood %}[{{ m.mood }}]{% endif %}{% if m.name %}{{ m.name }}:{% endif %}"
                "{% for c in m.tool_calls or [] %}<{{ c.function.name }}|{{ c.function.arguments }}|{{ c.id }}>{% endfor %}{{ m.tool_call_id or '' }}{{ m.content or '' }}{% endfor %}<|end|>")
    model = folder / "m"
    chain_model(model, [b"ok"], template=template)
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1.50}"}}
    talks = [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", **more}, {"role": "user", "content": "ok"}]
             for more in ({}, {"reasoning_content": "thinking hard"}, {"mood": 1.5}, {"name": "Ann"}, {"mood": {"a": [1, 2]}}, {"tool_calls": [call]}, {"refusal": None, "tool_calls": None})]
    talks.append([{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "3"}])
    lines = "".join(json.dumps({"messages": t, "add_generation_prompt": True}) + "\n" for t in talks)
    told = subprocess.run(r.command("tokenizer", "render", "--tokenizer", model, "--jsonl"), input=lines, capture_output=True, text=True, check=True).stdout
    texts = [json.loads(line)["text"] for line in told.splitlines()]
    check(len(set(texts[:-2])) == 6 and texts[0] == texts[6], texts)
    with Server(model, key="") as s:
        for talk, text in zip(talks, texts):
            got = s.post("/v1/chat/completions", messages=talk, max_tokens=1)["usage"]["prompt_tokens"]
            check(got == len(ids_of(model, text)), f"{talk}: {got} tokens, {text!r}")


def test_who_is_gone(folder):
    """A client that closes or resets its connection frees its place, whole answer or stream; one that has only closed its own end gets all of it."""
    model, body = endless(folder)
    with Server(model, "--max-batch", 1) as s:
        def raw(**more):
            b = json.dumps(body | more).encode()
            k = socket.create_connection(("127.0.0.1", s.port), timeout=r.LIMIT)
            k.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(b)}\r\n\r\n".encode() + b)
            return k
        for stream in (False, True):
            for reset in (False, True):
                k = raw(stream=stream)
                wait_for(lambda: s.metric("ravine_requests_running") == 1, "it runs")
                before = s.metric("ravine_generated_tokens_total")
                if reset:
                    k.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                k.close()
                wait_for(lambda: s.metric("ravine_requests_running") == 0, f"stream {stream}, reset {reset}")
                made = s.metric("ravine_generated_tokens_total") - before
                check(made < 14000, f"stream {stream}, reset {reset}: {made} tokens after it went")
        for stream in (False, True):
            k = raw(stream=stream, max_tokens=900)
            k.shutdown(socket.SHUT_WR)
            said = b""
            while more := k.recv(65536):
                said += more
            k.close()
            if stream:
                events = said.split(b"data: ")
                check(events[-1].startswith(b"[DONE]") and len(events) > 100, said[-200:])
            else:
                while said.startswith(b"HTTP/1.1 100"):
                    said = said.split(b"\r\n\r\n", 1)[1]
                check(said.startswith(b"HTTP/1.1 200") and json.loads(said.split(b"\r\n\r\n", 1)[1])["usage"]["completion_tokens"] == 900, said[:200])


def test_many_connect_at_once(folder):
    model = chat_model(folder)
    with Server(model) as s:
        gate = threading.Barrier(400)

        def one():
            gate.wait()
            try:
                with socket.create_connection(("127.0.0.1", s.port), timeout=r.LIMIT) as k:
                    k.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    said = b""
                    while more := k.recv(4096):
                        said += more
                    return said[:15]
            except OSError as e:
                return repr(e)
        got = at_once([one] * 400)
        check(set(got) == {b"HTTP/1.1 200 OK"}, {x: got.count(x) for x in set(got)})


def test_names_keys_and_lines(folder):
    """The model's name, its own route, a line for each request, keys from a file and from the environment, and origins of pages."""
    model = chat_model(folder)
    (folder / "key").write_text("of-a-file\n")
    with Server(model, "--api-key-file", folder / "key", "--served-model-name", "org/talk", "--cors", "https://a.example", "--cors", "http://localhost:3000", key="") as s:
        s.key = "of-a-file"
        check(s.ask("GET", "/v1/models", key="")[0] == 401 and s.ask("GET", "/v1/models")[2]["data"][0]["id"] == "org/talk", "the key of a file")
        check(s.ask("GET", "/v1/models/org/talk")[2]["id"] == "org/talk" and s.ask("GET", "/v1/models/other")[0] == 404, "one model")
        check(s.post("/v1/completions", prompt="The", max_tokens=3, model="org/talk")["model"] == "org/talk", "by its name")
        s.events("/v1/completions", prompt="The", max_tokens=4)
        wait_for(lambda: s.said.count("POST /v1/completions 200") == 2, s.said)
        lines = [x for x in s.said.splitlines() if "/v1/" in x]
        check(re.fullmatch(r"GET /v1/models 401, [\d.]+ s: the API key is missing.*", lines[0]) and any(re.fullmatch(r"POST /v1/completions 200, \d+ tokens in, 3 out, [\d.]+ s", x) for x in lines), lines)
        check("of-a-file" not in s.said and "GET /health" not in s.said, s.said)
        mine = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
        status, headers, _ = s.ask("OPTIONS", "/v1/chat/completions", key="", headers=mine)
        check(status == 204 and headers["Access-Control-Allow-Origin"] == "https://a.example" and "Authorization" in headers["Access-Control-Allow-Headers"], headers)
        check(s.ask("GET", "/v1/models", headers=mine)[1]["Access-Control-Allow-Origin"] == "https://a.example" and s.ask("GET", "/v1/models", key="", headers=mine)[1]["Access-Control-Allow-Origin"], "errors too")
        check("Access-Control-Allow-Origin" not in s.ask("GET", "/v1/models", headers={"Origin": "https://b.example"})[1], "another page")
    with Server(model, key="") as s:
        check(s.ask("OPTIONS", "/v1/models", headers={"Origin": "https://a.example"})[0] == 405 and "Access-Control-Allow-Origin" not in s.ask("GET", "/v1/models", headers={"Origin": "x"})[1], "off by default")
    os.environ["RAVINE_API_KEY"] = "of-the-environment"
    try:
        with Server(model, key="") as s:
            check(s.ask("GET", "/v1/models")[0] == 401 and s.ask("GET", "/v1/models", key="of-the-environment")[0] == 200, "the key of the environment")
        with Server(model) as s:
            check(s.ask("GET", "/v1/models")[0] == 200 and s.ask("GET", "/v1/models", key="of-the-environment")[0] == 401, "that of the command line counts")
    finally:
        del os.environ["RAVINE_API_KEY"]
    (folder / "empty").write_text("\n")
    for words, said in ((["--api-key-file", folder / "empty"], "no key"), (["--api-key-file", folder / "key", "--api-key", "x"], "leave one of them out"), (["--cors", "a.example/x"], "--cors https://example.org")):
        told = r.run("serve", "--model", model, *words, status=2).stderr
        check(said in told, told)


PAGE = """
const fs = require('fs'), base = process.argv[2], boxes = {};
const node = id => ({id, value: '', children: [], focus() { document.activeElement = this; }, append(x) { this.children.push(x); x.parent = this; }, scrollIntoView() {}, remove() { this.parent.children = this.parent.children.filter(y => y !== this); }, replaceChildren(...x) { this.children = x; if (x[0]) this.value = x[0].value; }});
globalThis.document = {getElementById: id => boxes[id] ||= node(id), createElement: () => node(''), activeElement: null};
globalThis.Option = function (text, value) { this.value = value; };
const real = fetch;
globalThis.fetch = (path, options) => real(base + path, options);
const page = fs.readFileSync(process.argv[3], 'utf8').match(/<script>([^]*)<\\/script>/)[1];
(async () => {
  await eval('(async () => {' + page + "; const say = async t => { await ask(t); return {talk: boxes.talk.children.map(d => d.className + ': ' + d.textContent), text: $('text').value, turns: messages.length, focus: document.activeElement && document.activeElement.id}; };" + fs.readFileSync(0, 'utf8') + '})()');
})();
"""


def test_a_prepared_folder_has_its_name(folder):
    """The run of a folder of `ravine init` is called `run`: the model has the folder's name."""
    model, prepared = chat_model(folder), folder / "talk"
    prepared.mkdir()
    shutil.copytree(model, prepared / "run" / "model")
    (prepared / "run.yaml").write_text(f"train:\n  output: {prepared / 'run'}\n")
    with Server(prepared / "run" / "model") as s:
        check([m["id"] for m in s.ask("GET", "/v1/models")[2]["data"]] == ["talk"], "its name")


def test_the_page(folder):
    """Oldest turns go when they no longer fit; a key is asked for; a question that failed comes back. The script of the page is run by node."""
    if not shutil.which("node"):
        return print("SKIPPED: no node to run the page's script")
    model = chat_model(folder)
    (folder / "page.js").write_text(PAGE)
    long = "The ravine is deep and the river runs below. " * 4
    with Server(model) as s:
        (folder / "page.html").write_text(s.ask("GET", "/", key="")[2])

        def talk(script):
            done = subprocess.run(["node", folder / "page.js", f"http://127.0.0.1:{s.port}", folder / "page.html"], input=script, capture_output=True, text=True, timeout=r.LIMIT)
            check(done.returncode == 0, done.stderr)
            return [json.loads(x) for x in done.stdout.splitlines()]
        tell = "console.log(JSON.stringify(await say({})));"
        without = talk("await models();" + tell.format("'Who?'"))[0]
        check(without["text"] == "Who?" and without["turns"] == 0 and without["focus"] == "key" and any("wants its API key" in x for x in without["talk"]), without)
        turns = talk(f"$('key').value = '{KEY}'; await models();" + "".join(tell.format(json.dumps(long)) for _ in range(4)))
        check(all(not any(x.startswith("error") and "API key" not in x for x in t["talk"]) for t in turns) and "left out" in str(turns[-1]["talk"]) and turns[-1]["turns"] < 8, turns[-1])
        huge = talk(f"$('key').value = '{KEY}'; await models();" + tell.format(json.dumps("word " * 400)))[0]
        check(huge["text"].startswith("word word") and huge["turns"] == 0 and any(x.startswith("error") and "positions" in x for x in huge["talk"]), huge)


if __name__ == "__main__":
    r.main(globals())
