"""Triton kernels for short sequences: keys and values of a sequence stay on the chip, forward and backward.

One program handles one head of one sequence, so scores and weights never touch device memory. Sequences of up to 16
tokens take a 16-wide tile, longer ones the next power of two; many queries pass in tiles. Dropout draws from an integer
hash of (seed, place), so the backward pass draws the same numbers again instead of storing them. `kernel_operators`
makes differentiable functions of them.
"""

import triton
import triton.language as tl


@triton.jit
def _mix(h):
    """A bijective scrambling of 32 bits; `dropout._mix` does the same."""
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    return h ^ (h >> 16)


@triton.jit
def _weights(
    q, k, query, allowed_ptr, queries, keys, key, pair, scale, threshold, kept,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, SPAN: tl.constexpr, MASKED: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Softmax over the keys that may be read, and the dropout factor of every entry, for a tile of queries."""
    step = tl.arange(0, KEYS)
    visible = (step[None, :] < keys) & (query[:, None] < queries)
    if MASKED:
        visible = visible & (tl.load(allowed_ptr + query[:, None] * keys + step[None, :], mask=visible, other=0) != 0)
    scores = tl.where(visible, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, -1.0e30)
    powers = tl.where(visible, tl.exp(scores - tl.max(scores, 1)[:, None]), 0.0)
    totals = tl.sum(powers, 1)
    weights = powers / tl.where(totals > 0.0, totals, 1.0)[:, None]
    factor = tl.full((QUERIES, KEYS), 1.0, tl.float32)
    if DROP:
        counter = (pair * SPAN + query[:, None]) * SPAN + step[None, :]
        bits = _mix((counter.to(tl.uint32) ^ key) * 0x9E3779B1)
        factor = tl.where(bits >= threshold, kept, 0.0)
    return weights, factor


@triton.jit
def _forward_tile(
    q_ptr, kv_ptr, out_ptr, allowed_ptr, first_q, first_k, queries, keys, key, pair, scale, threshold, kept,
    Q_ROW: tl.constexpr, KV_ROW: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    MOST: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, SPAN: tl.constexpr,
    MASKED: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """One head of one sequence: keys and values stay on the chip while tiles of queries pass."""
    step, column = tl.arange(0, KEYS), tl.arange(0, BLOCK)
    inside = (step < keys)[:, None] & (column < WIDTH)[None, :]
    k_ptr = kv_ptr + (first_k + step).to(tl.int64)[:, None] * KV_ROW + (pair % HEADS) * WIDTH + column[None, :]
    k = tl.load(k_ptr, mask=inside, other=0.0)
    v = tl.load(k_ptr + HEADS * WIDTH, mask=inside, other=0.0)
    for start in range(0, MOST, QUERIES):
        query = start + tl.arange(0, QUERIES)
        asked = (query < queries)[:, None] & (column < WIDTH)[None, :]
        token = (first_q + query).to(tl.int64)[:, None]
        offset = (pair % HEADS) * WIDTH + column[None, :]
        q = tl.load(q_ptr + token * Q_ROW + offset, mask=asked, other=0.0)
        weights, factor = _weights(
            q, k, query, allowed_ptr, queries, keys, key, pair, scale, threshold, kept,
            QUERIES, KEYS, SPAN, MASKED, DROP,
        )  # fmt: skip
        out = tl.dot((weights * factor).to(v.dtype), v, input_precision="ieee")
        tl.store(out_ptr + token * (HEADS * WIDTH) + offset, out.to(v.dtype), mask=asked)


@triton.jit
def _backward_tile(
    q_ptr, kv_ptr, dout_ptr, dq_ptr, dkv_ptr, allowed_ptr, first_q, first_k, queries, keys,
    key, pair, scale, threshold, kept,
    Q_ROW: tl.constexpr, KV_ROW: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    MOST: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, SPAN: tl.constexpr,
    MASKED: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    step, column = tl.arange(0, KEYS), tl.arange(0, BLOCK)
    inside = (step < keys)[:, None] & (column < WIDTH)[None, :]
    key_offset = (first_k + step).to(tl.int64)[:, None] * KV_ROW + (pair % HEADS) * WIDTH + column[None, :]
    k = tl.load(kv_ptr + key_offset, mask=inside, other=0.0)
    v = tl.load(kv_ptr + key_offset + HEADS * WIDTH, mask=inside, other=0.0)
    dk = tl.zeros((KEYS, BLOCK), tl.float32)
    dv = tl.zeros((KEYS, BLOCK), tl.float32)
    for start in range(0, MOST, QUERIES):
        query = start + tl.arange(0, QUERIES)
        asked = (query < queries)[:, None] & (column < WIDTH)[None, :]
        token = (first_q + query).to(tl.int64)[:, None]
        offset = (pair % HEADS) * WIDTH + column[None, :]
        q = tl.load(q_ptr + token * Q_ROW + offset, mask=asked, other=0.0)
        dout = tl.load(dout_ptr + token * (HEADS * WIDTH) + offset, mask=asked, other=0.0)
        weights, factor = _weights(
            q, k, query, allowed_ptr, queries, keys, key, pair, scale, threshold, kept,
            QUERIES, KEYS, SPAN, MASKED, DROP,
        )  # fmt: skip
        dv += tl.dot(tl.trans((weights * factor).to(v.dtype)), dout, input_precision="ieee")
        dweights = tl.dot(dout, tl.trans(v), input_precision="ieee") * factor
        dscores = (weights * (dweights - tl.sum(weights * dweights, 1)[:, None]) * scale).to(v.dtype)
        dq = tl.dot(dscores, k, input_precision="ieee")
        dk += tl.dot(tl.trans(dscores), q, input_precision="ieee")
        tl.store(dq_ptr + token * Q_ROW + offset, dq.to(v.dtype), mask=asked)
    tl.store(dkv_ptr + key_offset, dk.to(v.dtype), mask=inside)
    tl.store(dkv_ptr + key_offset + HEADS * WIDTH, dv.to(v.dtype), mask=inside)


@triton.jit
def forward(
    qkv_ptr, out_ptr, first_ptr, length_ptr, seed_ptr, scale, threshold, kept,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    QUERIES: tl.constexpr, WIDEST: tl.constexpr, SMALL: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0)
    length = tl.load(length_ptr + pair // HEADS)
    first = tl.load(first_ptr + pair // HEADS)
    key = _mix(tl.load(seed_ptr).to(tl.uint32))
    if length > 0:
        if length <= SMALL:
            _forward_tile(
                qkv_ptr, qkv_ptr + HEADS * WIDTH, out_ptr, qkv_ptr, first, first, length, length, key, pair,
                scale, threshold, kept, 3 * HEADS * WIDTH, 3 * HEADS * WIDTH, HEADS, WIDTH, BLOCK,
                SMALL, SMALL, SMALL, WIDEST, False, DROP,
            )  # fmt: skip
        elif SMALL < WIDEST:
            _forward_tile(
                qkv_ptr, qkv_ptr + HEADS * WIDTH, out_ptr, qkv_ptr, first, first, length, length, key, pair,
                scale, threshold, kept, 3 * HEADS * WIDTH, 3 * HEADS * WIDTH, HEADS, WIDTH, BLOCK,
                WIDEST, QUERIES, WIDEST, WIDEST, False, DROP,
            )  # fmt: skip


@triton.jit
def backward(
    qkv_ptr, dout_ptr, dqkv_ptr, first_ptr, length_ptr, seed_ptr, scale, threshold, kept,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    QUERIES: tl.constexpr, WIDEST: tl.constexpr, SMALL: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0)
    length = tl.load(length_ptr + pair // HEADS)
    first = tl.load(first_ptr + pair // HEADS)
    key = _mix(tl.load(seed_ptr).to(tl.uint32))
    if length > 0:
        if length <= SMALL:
            _backward_tile(
                qkv_ptr, qkv_ptr + HEADS * WIDTH, dout_ptr, dqkv_ptr, dqkv_ptr + HEADS * WIDTH, qkv_ptr,
                first, first, length, length, key, pair, scale, threshold, kept,
                3 * HEADS * WIDTH, 3 * HEADS * WIDTH, HEADS, WIDTH, BLOCK, SMALL, SMALL, SMALL, WIDEST, False, DROP,
            )  # fmt: skip
        elif SMALL < WIDEST:
            _backward_tile(
                qkv_ptr, qkv_ptr + HEADS * WIDTH, dout_ptr, dqkv_ptr, dqkv_ptr + HEADS * WIDTH, qkv_ptr,
                first, first, length, length, key, pair, scale, threshold, kept,
                3 * HEADS * WIDTH, 3 * HEADS * WIDTH, HEADS, WIDTH, BLOCK, WIDEST, QUERIES, WIDEST, WIDEST, False, DROP,
            )  # fmt: skip


@triton.jit
def forward_between(
    q_ptr, kv_ptr, out_ptr, allowed_ptr, seed_ptr, queries, keys, scale, threshold, kept,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    MOST: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, SPAN: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0)
    key = _mix(tl.load(seed_ptr).to(tl.uint32))
    first_q, first_k = pair // HEADS * queries, pair // HEADS * keys
    _forward_tile(
        q_ptr, kv_ptr, out_ptr, allowed_ptr, first_q, first_k, queries, keys, key, pair, scale, threshold, kept,
        HEADS * WIDTH, 2 * HEADS * WIDTH, HEADS, WIDTH, BLOCK, MOST, QUERIES, KEYS, SPAN, True, DROP,
    )  # fmt: skip


@triton.jit
def backward_between(
    q_ptr, kv_ptr, dout_ptr, dq_ptr, dkv_ptr, allowed_ptr, seed_ptr, queries, keys, scale, threshold, kept,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    MOST: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, SPAN: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0)
    key = _mix(tl.load(seed_ptr).to(tl.uint32))
    first_q, first_k = pair // HEADS * queries, pair // HEADS * keys
    _backward_tile(
        q_ptr, kv_ptr, dout_ptr, dq_ptr, dkv_ptr, allowed_ptr, first_q, first_k, queries, keys,
        key, pair, scale, threshold, kept,
        HEADS * WIDTH, 2 * HEADS * WIDTH, HEADS, WIDTH, BLOCK, MOST, QUERIES, KEYS, SPAN, True, DROP,
    )  # fmt: skip


@triton.jit
def mean(x_ptr, out_ptr, first_ptr, length_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0)
    first, length = tl.load(first_ptr + row), tl.load(length_ptr + row)
    column = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, TILE, 4):
        step = start + tl.arange(0, 4)
        inside = (step < length)[:, None] & (column < WIDTH)[None, :]
        x = tl.load(x_ptr + (first + step).to(tl.int64)[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
        total += tl.sum(x.to(tl.float32), 0)
    mean = total / tl.maximum(length, 1).to(tl.float32)
    tl.store(out_ptr + row.to(tl.int64) * WIDTH + column, mean.to(out_ptr.dtype.element_ty), mask=column < WIDTH)


@triton.jit
def mean_backward(
    dmean_ptr, dx_ptr, first_ptr, length_ptr, rows,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Every token of a row gets its share of the row's gradient; the filling behind the rows gets none."""
    row = tl.program_id(0)
    first, length = tl.load(first_ptr + row), tl.load(length_ptr + row)
    column = tl.arange(0, BLOCK)
    entries = tl.where(row < rows, WIDTH, 0)
    dmean = tl.load(dmean_ptr + row.to(tl.int64) * WIDTH + column, mask=column < entries, other=0.0)
    share = (dmean.to(tl.float32) / tl.maximum(length, 1).to(tl.float32)).to(dx_ptr.dtype.element_ty)
    for start in range(0, TILE, 4):
        step = start + tl.arange(0, 4)
        inside = (step < length)[:, None] & (column < WIDTH)[None, :]
        token = (first + step).to(tl.int64)[:, None]
        tl.store(dx_ptr + token * WIDTH + column[None, :], tl.broadcast_to(share[None, :], (4, BLOCK)), mask=inside)
