"""Attention for short sequences: the one place where scores and weights are computed.

B batch, N heads, L queries, S keys, E head width, D latent width. `allowed` is a boolean mask that broadcasts to
(B, N, L, S); True means "may be read". A query that may read nothing gets a finite average that its caller drops.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossfeed.model.parts.dropout import generated_dropout
from crossfeed.model.parts.packing import Sequences

LONGEST = 512  # keys of a sequence that a kernel can keep on the chip


@dataclass(frozen=True, slots=True)
class Kernels:
    """Attention on a GPU: inside packed sequences, and between queries and keys; dropout draws by hash from `seed`."""

    packed: Callable[[Tensor, Sequences, int, float, Tensor], Tensor]
    between: Callable[[Tensor, Tensor, Tensor, int, float, Tensor], Tensor]
    seed: Tensor


def attend(query_BNLE: Tensor, key_BNSE: Tensor, value_BNSE: Tensor, allowed: Tensor | None, dropout: float) -> Tensor:
    """Weighted values by two batched products and a softmax; faster than library kernels below some 100 keys."""
    score_BNLS = (query_BNLE * query_BNLE.shape[-1] ** -0.5) @ key_BNSE.transpose(-2, -1)
    if allowed is not None:
        # A sum leaves what is allowed as it is and costs a CPU a fifth of filling scores in.
        score_BNLS += (~allowed).to(score_BNLS.dtype) * torch.finfo(score_BNLS.dtype).min
    weight_BNLS = score_BNLS.softmax(-1).to(value_BNSE.dtype)
    if dropout > 0.0:
        weight_BNLS = generated_dropout(weight_BNLS, dropout)
    mixed_BNLE: Tensor = weight_BNLS @ value_BNSE
    return mixed_BNLE


def attend_packed(qkv_N3D: Tensor, sequences: Sequences, heads: int, dropout: float) -> Tensor:
    """Attention inside each packed sequence by way of a padded array: the reference for the kernel on GPUs."""
    step_L = torch.arange(sequences.longest, device=qkv_N3D.device)
    inside_SL = step_L < sequences.length_S[:, None]
    slot_SL = torch.where(inside_SL, sequences.first_S[:, None] + step_L, len(qkv_N3D)).long()
    padded_SL3D = functional.pad(qkv_N3D, (0, 0, 0, 0, 0, 1))[slot_SL]
    query, key, value = (_split(part, heads) for part in padded_SL3D.unbind(2))
    out_SLD = _merge(attend(query, key, value, inside_SL[:, None, None, :], dropout))
    out_ND = qkv_N3D.new_zeros(len(qkv_N3D) + 1, out_SLD.shape[-1])
    return out_ND.index_put((slot_SL.flatten(),), out_SLD.flatten(0, 1))[:-1]


class SelfAttention(nn.Module):
    """Every position (or, on request, the last one only) reads the allowed positions of its own sequence.

    Packed tokens come with their `Sequences` instead of a mask; `use_kernels` gives the module kernels.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.kernels: Kernels | None = None
        self.query_key_value = _projection(width, 3 * width)
        self.out = _output(width)

    def forward(self, x_BLD: Tensor, allowed: Tensor | Sequences | None = None, last_only: bool = False) -> Tensor:
        out_BLD: Tensor = self.out(self.mix(self.query_key_value(x_BLD), allowed, last_only))
        return out_BLD

    def mix(self, qkv_BLE: Tensor, allowed: Tensor | Sequences | None, last_only: bool = False) -> Tensor:
        """What the heads read, from queries, keys and values side by side."""
        dropout = self.dropout if self.training else 0.0
        if isinstance(allowed, Sequences):
            return self._packed(_parts(qkv_BLE, 3), allowed, dropout)
        qkv_BL3D = _parts(qkv_BLE, 3)
        query_BLD = qkv_BL3D[:, -1:, 0] if last_only else qkv_BL3D[:, :, 0]
        return _read(query_BLD, qkv_BL3D[:, :, 1:], allowed, self.heads, dropout, self.kernels)

    def _packed(self, qkv_N3D: Tensor, sequences: Sequences, dropout: float) -> Tensor:
        kernels = self.kernels
        if kernels is None or sequences.longest > LONGEST:
            return attend_packed(qkv_N3D, sequences, self.heads, dropout)
        return kernels.packed(qkv_N3D, sequences, self.heads, dropout, kernels.seed)


class CrossAttention(nn.Module):
    """Every position reads the allowed positions of another sequence."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.kernels: Kernels | None = None
        self.query = _projection(width, width)
        self.key_value = _projection(width, 2 * width)
        self.out = _output(width)

    def forward(self, x_BLD: Tensor, memory_BSD: Tensor, allowed: Tensor | None = None) -> Tensor:
        out_BLD: Tensor = self.out(self.mix(self.query(x_BLD), self.key_value(memory_BSD), allowed))
        return out_BLD

    def mix(self, query_BLD: Tensor, key_value_BSE: Tensor, allowed: Tensor | None) -> Tensor:
        """What the heads read, from queries and from keys and values side by side."""
        dropout = self.dropout if self.training else 0.0
        return _read(query_BLD, _parts(key_value_BSE, 2), allowed, self.heads, dropout, self.kernels)


def _read(
    query_BLD: Tensor,
    key_value_BS2D: Tensor,
    allowed: Tensor | None,
    heads: int,
    dropout: float,
    kernels: Kernels | None,
) -> Tensor:
    """All heads of an attention, by kernel where there is one and the mask is the same for all windows."""
    if kernels is not None and allowed is not None and allowed.ndim == 2 and key_value_BS2D.shape[1] <= LONGEST:
        query_BLD, key_value_BS2D = query_BLD.contiguous(), key_value_BS2D.contiguous()
        return kernels.between(query_BLD, key_value_BS2D, allowed, heads, dropout, kernels.seed)
    query, key, value = (_split(part, heads) for part in (query_BLD, *key_value_BS2D.unbind(2)))
    return _merge(attend(query, key, value, allowed, dropout))


def _projection(width: int, out: int) -> nn.Linear:
    linear = nn.Linear(width, out)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _output(width: int) -> nn.Linear:
    linear = nn.Linear(width, width)
    nn.init.zeros_(linear.bias)
    return linear


def _parts(x: Tensor, count: int) -> Tensor:
    """The last dimension as so many parts of equal width."""
    return x.view(*x.shape[:-1], count, -1)


def _split(x_BLD: Tensor, heads: int) -> Tensor:
    return x_BLD.view(*x_BLD.shape[:2], heads, -1).transpose(1, 2)


def _merge(x_BNLE: Tensor) -> Tensor:
    return x_BNLE.transpose(1, 2).flatten(2)
