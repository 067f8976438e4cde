"""`ravine serve`: answers over HTTP are those of `generate`, whole and streamed, alone and side by side; adapters are models of their own; wrong requests, hostile clients
and clients that leave harm nobody; a signal lets answers under way end."""
import http.client
import json
import re
import select
import signal
import socket
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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

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


def test_answers_are_those_of_generate(folder):
    model = chat_model(folder)
    prompts = ["The ravine", "is deep", "The river runs below", "and", "The"]
    (folder / "p.txt").write_text("".join(p + "\n" for p in prompts))
    base = ["generate", "--model", model, "--max-new-tokens", 12, "--json"]
    wanted = answers(r.run(*base, "--prompts", folder / "p.txt").stdout)
    chat = answers(r.run(*base, "--chat", "--prompt", "Who?").stdout)[0]
    with Server(model, "--max-batch", 3) as s:
        status, _, models = s.ask("GET", "/v1/models")
        check(status == 200 and [m["id"] for m in models["data"]] == ["model"], models)
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
        check(abs(sum(scores["token_logprobs"]) - wanted[0]["logprob"]) < 1e-6 * len(scores["tokens"]) and "".join(scores["tokens"]).startswith(whole), f"{scores} {wanted[0]}")
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
        check({m["id"] for m in s.ask("GET", "/v1/models")[2]["data"]} == {"model", *kinds}, "names")
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
        ("chat/completions", {"messages": [*talk, {"role": "assistant", "content": "", "tool_calls": [{}]}]}, 400, "messages"),
        ("chat/completions", {"messages": talk, "top_logprobs": 2}, 400, "top_logprobs"), ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages")]
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


if __name__ == "__main__":
    r.main(globals())
