"""Records steps of a training in PyTorch, so that `ravine compare` finds where it differs from a run of Ravine. One import and one line in the script, before it trains:

    import trace_torch
    trace_torch.record(model, optimizer, "traces/torch", steps="1-2")

Then, of the same weights and data:

    ravine train --config run.yaml probe.dump='{dir: dumps/ravine, steps: "1-2", what: tensors}'
    ravine compare traces/torch dumps/ravine

With Trainer, whose optimizer is made late, leave the optimizer out; call record before trainer.train(). A step is what one optimizer.step() ends; each call of the model in it is a micro
batch. Recorded of the steps that are named: what each module reads and returns, the gradients of both, queries, keys and values behind RoPE (Transformers), gradients of parameters before
they are clipped, parameters and states of the optimizer before and behind the step, rates and settings. Of ranks, each writes a folder of its own (rank_0, ..). Nothing of the training is
changed; it needs the memory of all that a step computes, on the CPU.

Files: trace.json, the manifest, and step_000001.safetensors with tensors named forward/MICRO/MODULE/in.0, out.0; backward/MICRO/MODULE/in.0, out.0 (their gradients); gradient/PARAMETER;
state/PARAMETER/weights, exp_avg, ..; step_000000.safetensors has the state before the first step."""
import json
import os

import torch
from safetensors.torch import save_file

VERSION = 1


def record(model, optimizer=None, folder="traces/torch", steps="1"):
    """Begins to record; returns what records, whose stop() takes all hooks away."""
    return Recorder(model, optimizer, folder, steps)


def wanted_steps(text):
    """"1-2|5" as a test."""
    ranges = [tuple(map(int, (part.split("-") * 2)[:2])) for part in str(text).split("|") if part]
    return lambda step: not ranges or any(low <= step <= high for low, high in ranges)


def tensors_in(value):
    """The tensors of arguments or results, in their order, without caches and the like."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):  # ModelOutput is one
        return [t for v in value.values() for t in tensors_in(v)]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors_in(v)]
    return []


def kept(t):
    t = t.detach()
    if t.dtype in (torch.int64, torch.bool):  # ids, labels, positions, masks
        t = t.to(torch.int32)
    return t.to("cpu", copy=True).contiguous()


class Recorder:
    def __init__(self, model, optimizer, folder, steps):
        self.model, self.optimizer, self.wants = model, optimizer, wanted_steps(steps)
        ranks = torch.distributed.get_world_size() if torch.distributed.is_available() and torch.distributed.is_initialized() else 1
        self.folder = os.path.join(folder, f"rank_{torch.distributed.get_rank()}") if ranks > 1 else folder
        os.makedirs(self.folder, exist_ok=True)
        older = os.path.join(self.folder, "trace.json")
        if os.path.exists(older) and '"trace": "torch"' in open(older).read(4096):  # of an older trace nothing stays
            for name in os.listdir(self.folder):
                if name.startswith("step_") and name.endswith((".safetensors", ".part")):
                    os.unlink(os.path.join(self.folder, name))
        self.step, self.micro, self.calls, self.tensors, self.losses = 1, 0, {}, {}, []
        self.names = {p: n for n, p in model.named_parameters()}
        config = getattr(model, "config", None)
        self.manifest = {"trace": "torch", "version": VERSION, "torch": torch.__version__, "ranks": ranks,
                         "model": json.loads(json.dumps(config.to_dict(), default=str)) if hasattr(config, "to_dict") else {},
                         "modules": [[n, type(m).__name__] for n, m in model.named_modules()], "steps": {}}
        self.handles = [model.register_forward_pre_hook(self.begin_micro, with_kwargs=True)]
        for name, module in model.named_modules():
            self.handles.append(module.register_forward_hook(lambda m, args, kwargs, out, name=name: self.note_call(name, args, kwargs, out), with_kwargs=True))
        for p in self.names:
            if p.requires_grad:
                self.handles.append(p.register_post_accumulate_grad_hook(self.note_gradient))
        self.handles.append(model.register_forward_hook(self.end_micro))
        self.attentions = {}
        self.wrap_attention()
        if optimizer is not None:
            self.watch(optimizer)
        else:  # Trainer makes it later: of all optimizers the first that has a parameter of this model
            self.handles += [torch.optim.optimizer.register_optimizer_step_pre_hook(self.before_step),
                             torch.optim.optimizer.register_optimizer_step_post_hook(self.after_step)]
        self.write_manifest()

    def watch(self, optimizer):
        optimizer = getattr(optimizer, "optimizer", optimizer)  # Accelerate's wrapper
        self.handles += [optimizer.register_step_pre_hook(self.before_step), optimizer.register_step_post_hook(self.after_step)]

    def stop(self):
        for handle in self.handles:
            handle.remove()
        for table, name, was in self.attentions.values():
            table[name] = was
        self.handles, self.attentions = [], {}

    # Calls of modules.

    def begin_micro(self, _module, args, kwargs):
        if not self.model.training or not torch.is_grad_enabled():
            return
        self.micro, self.calls = self.micro + 1, {}
        if self.micro == 1 and (self.wants(self.step) or self.wants(self.step - 1)):
            self.write_state(self.step - 1)

    def records(self):
        return self.micro > 0 and self.wants(self.step) and self.model.training and torch.is_grad_enabled()

    def end_micro(self, _module, _args, output):
        loss = getattr(output, "loss", None)
        if self.records() and loss is not None:
            self.losses.append(float(loss.detach()))

    def note(self, name, side, tensors):
        for i, t in enumerate(tensors):
            at = f"{self.micro}/{name}/{side}.{i}"
            if f"forward/{at}" in self.tensors:  # recomputed by checkpointing
                continue
            self.note_tensor(at, t)

    def note_tensor(self, at, t, rows=lambda t: t):
        """A tensor, and its gradient once it is there. Gradients are of the whole tensor, whoever else reads it."""
        self.tensors[f"forward/{at}"] = kept(rows(t))
        step = self.step

        def note_gradient(g):
            if step == self.step:
                self.tensors[f"backward/{at}"] = kept(rows(g))
        if t.requires_grad and t.is_floating_point():
            t.register_hook(note_gradient)

    def note_call(self, name, args, kwargs, out):
        if not self.records():
            return
        n = self.calls[name] = self.calls.get(name, -1) + 1
        place = name if n == 0 else f"{name}[{n}]"
        if not name:  # the model itself: ids, labels, logits
            given = {k: v for k, v in kwargs.items() if isinstance(v, torch.Tensor)}
            for key, t in given.items():
                self.tensors[f"forward/{self.micro}/{key}"] = kept(t)
            if isinstance(getattr(out, "logits", None), torch.Tensor):
                self.note("logits", "out", [out.logits])
            return
        self.note(place, "in", tensors_in(args) + tensors_in({k: v for k, v in kwargs.items() if k == "hidden_states"}))
        self.note(place, "out", tensors_in(out))

    def wrap_attention(self):
        """Transformers looks its attention up by name and hands it the module, q, k, v as [batch, heads, tokens, size]."""
        try:
            from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as table
        except ImportError:
            return
        name = getattr(getattr(self.model, "config", None), "_attn_implementation", None) or "eager"
        try:
            was = table[name]
        except (KeyError, TypeError):
            return
        paths = {m: n for n, m in self.model.named_modules()}

        def attention(module, query, key, value, *rest, **more):
            if self.records() and module in paths:
                for side, t in (("q", query), ("k", key), ("v", value)):
                    self.note_tensor(f"{self.micro}/{paths[module]}.attention/{side}", t, lambda t: t.transpose(1, 2).flatten(2))
            return was(module, query, key, value, *rest, **more)
        table[name] = attention
        self.attentions[name] = (table, name, was)

    # Gradients, states, steps.

    def note_gradient(self, p):
        if self.wants(self.step) and p.grad is not None:  # the last one of a step is the sum, and not clipped yet
            self.tensors[f"gradient/{self.names[p]}"] = kept(p.grad)

    def before_step(self, optimizer, _args, _kwargs):
        if not any(p in self.names for g in optimizer.param_groups for p in g["params"]):
            return
        settings = {}
        for group in optimizer.param_groups:
            numbers = {k: v for k, v in group.items() if isinstance(v, (int, float, bool))}
            if "betas" in group:
                numbers["beta1"], numbers["beta2"] = group["betas"]
            settings.update({self.names[p]: numbers for p in group["params"] if p in self.names})
        clipped = [self.tensors.get(f"gradient/{n}") for p, n in self.names.items() if p.grad is not None]
        if self.wants(self.step):
            before = sum(float(t.double().square().sum()) for t in clipped if t is not None) ** 0.5
            after = sum(float(p.grad.double().square().sum()) for p in self.names if p.grad is not None) ** 0.5
            self.manifest["steps"][self.step] = {"losses": self.losses, "micro": self.micro, "optimizer": type(optimizer).__name__, "settings": settings,
                                                 "grad_norm": before, "clip": after / before if before else 1.0}

    def after_step(self, optimizer, _args, _kwargs):
        if not any(p in self.names for g in optimizer.param_groups for p in g["params"]):
            return
        self.optimizer = optimizer
        if self.wants(self.step):
            self.write_state(self.step)
            self.write_manifest()
        self.step, self.micro, self.tensors, self.losses = self.step + 1, 0, {}, []

    def write_state(self, step):
        for p, name in self.names.items():
            self.tensors[f"state/{name}/weights"] = kept(p)
            for key, value in (self.optimizer.state.get(p, {}) if self.optimizer is not None else {}).items():
                if isinstance(value, torch.Tensor) and value.shape == p.shape:
                    self.tensors[f"state/{name}/{key}"] = kept(value)
        if step < self.step:  # before the first step that is recorded
            before = {k: self.tensors.pop(k) for k in list(self.tensors) if k.startswith("state/")}
            if os.path.exists(self.file(step)):
                return
            self.save(step, before)
        else:
            self.save(step, self.tensors)

    def file(self, step):
        return os.path.join(self.folder, f"step_{step:06}.safetensors")

    def save(self, step, tensors):
        apart, seen = {}, set()
        for key, t in tensors.items():  # tied tables are two names of one memory: safetensors wants two
            apart[key] = t.clone() if t.data_ptr() in seen and t.numel() else t
            seen.add(t.data_ptr())
        save_file(apart, self.file(step) + ".part")
        os.replace(self.file(step) + ".part", self.file(step))

    def write_manifest(self):
        path = os.path.join(self.folder, "trace.json")
        with open(path + ".part", "w") as f:
            json.dump(json.loads(json.dumps(self.manifest), parse_constant=lambda _: None), f, allow_nan=False)  # NaN and Infinity are no JSON
        os.replace(path + ".part", path)
