"""Kernels in Triton's interpreter, where Triton is installed: against references in float64, and whole models."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = """
import torch
from crossfeed.model.parts import attention, packing
from crossfeed.model.fast import kernel_operators as operators
torch.manual_seed(0)
close = lambda found, exact: torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-5)
for channels, share, seed_of_masks in ((17, 0.6, 0), (17, 1.0, 1), (5, 0.3, 2), (70, 0.7, 3)):
    m = torch.rand(9, channels, generator=torch.Generator().manual_seed(seed_of_masks)) < share
    m[3], m[4] = False, True
    p = packing.pack(m, int(m.sum()) + 21)
    seed = torch.tensor([5])
    for width, heads in ((64, 4), (96, 2)):
        qkv = torch.randn(len(p.token_N), 3, width, requires_grad=True)
        exact = qkv.detach().double().requires_grad_()
        out = operators.attend_packed(qkv, p.sequences, heads, 0.0, seed)
        reference = attention.attend_packed(exact, p.sequences, heads, 0.0)
        gradient = torch.randn_like(out)
        out.backward(gradient), reference.backward(gradient.double())
        close(out, reference), close(qkv.grad, exact.grad)
    x = torch.randn(len(p.token_N), 24, requires_grad=True)
    exact = x.detach().double().requires_grad_()
    out, reference = operators.mean_of_rows(x, p), packing.mean_of_rows(exact, p)
    gradient = torch.randn_like(out)
    out.backward(gradient), reference.backward(gradient.double())
    close(out, reference), close(x.grad, exact.grad)
    dropped = lambda z, seed: operators.attend_packed(z, p.sequences, 2, 0.3, seed)
    qkv = torch.randn(len(p.token_N), 3, 32, requires_grad=True)
    out = dropped(qkv, seed)
    gradient, direction = torch.randn_like(out), torch.randn_like(qkv)
    out.backward(gradient)
    with torch.no_grad():
        change = dropped(qkv + 1e-3 * direction, seed) - dropped(qkv - 1e-3 * direction, seed)
    torch.testing.assert_close((change * gradient).sum() / 2e-3, (qkv.grad * direction).sum(), rtol=1e-2, atol=1e-2)
    assert torch.equal(out, dropped(qkv, seed)), "the same seed drops the same entries"
    assert not torch.equal(out, dropped(qkv, seed + 1))
for queries, keys in ((5, 5), (5, 16), (40, 3)):
    allowed = torch.ones(queries, keys, dtype=torch.bool).tril()
    q, kv = torch.randn(3, queries, 48, requires_grad=True), torch.randn(3, keys, 2, 48, requires_grad=True)
    wide, wide_kv = (z.detach().double().requires_grad_() for z in (q, kv))
    out = operators.attend_between(q, kv, allowed, 4, 0.0, seed)
    reference = attention._read(wide, wide_kv, allowed, 4, 0.0, None)
    gradient = torch.randn_like(out)
    out.backward(gradient), reference.backward(gradient.double())
    close(out, reference), close(q.grad, wide.grad), close(kv.grad, wide_kv.grad)
    kept = operators.attend_between(torch.zeros(3, queries, 48), torch.ones(3, keys, 2, 48), allowed, 4, 0.4, seed)
    assert abs(float(kept.mean()) - 1.0) < 0.2, "dropout keeps the mean"
"""


pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


def interpret(*arguments: str) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, *arguments], check=True, env=environment, cwd=root, timeout=600)


def test_the_attention_kernels_match_their_float64_references() -> None:
    interpret("-c", KERNELS)


def test_a_model_that_runs_by_kernels_has_the_losses_and_gradients_of_a_plain_one() -> None:
    interpret(str(Path(__file__).with_name("fast_path_check.py")))
