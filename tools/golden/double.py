"""Models of Transformers wholly in double: their code casts to float32 in places, and writes constants with eight digits."""
import torch
from torch.overrides import TorchFunctionMode
from transformers import activations
from transformers.models.bloom import modeling_bloom


class AllDouble(TorchFunctionMode):
    """Model code casts to float32 inside norms, softmax and RoPE: here these casts give double."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            return args[0].double()
        swap = lambda v: torch.float64 if v is torch.float32 else v
        return func(*[swap(a) for a in args], **{k: swap(v) for k, v in (kwargs or {}).items()})


class ExactGelu(torch.nn.Module):
    """Bloom's and gelu_fast, with sqrt(2/pi) in full, where their own code has eight and ten digits."""

    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


modeling_bloom.BloomGelu = ExactGelu
activations.FastGELUActivation.forward = ExactGelu.forward
