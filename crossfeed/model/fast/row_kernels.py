"""Triton kernels for everything between two matrix products: norms, activations, dropout, residual sums.

Each reads a row of a large array once and does all there is to do with it. The bias of a product is added by the kernel
that follows it, because that kernel's backward pass can then sum the bias gradient while the entries are on the chip.
Programs of a backward pass walk over many rows and leave one partial sum each; `row_operators` adds those up.

Dropout draws as `dropout.random_bits` does: the same seed drops the same entries here and in the reference.
"""

import triton
import triton.language as tl

from crossfeed.model.fast.kernels import _mix


@triton.jit
def _kept(row, column, seed_ptr, threshold, WIDTH: tl.constexpr):
    """Which entries of a tile stay; `threshold` is on the scale of signed 32-bit integers."""
    key = _mix(tl.load(seed_ptr).to(tl.uint32))
    entry = (row[:, None] * WIDTH + column[None, :]).to(tl.uint32)
    return _mix((entry ^ key) * 0x9E3779B1).to(tl.int32, bitcast=True) >= threshold


@triton.jit
def _tile(tile, rows, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Rows and columns of a tile, where its entries lie, and which of them exist."""
    row, column = tile * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < WIDTH)[None, :]
    return row, column, row.to(tl.int64)[:, None] * WIDTH + column[None, :], inside


@triton.jit
def _normal(x):
    """Distribution function and density of the standard normal, for one exponential and one division.

    Abramowitz and Stegun 7.1.26: the error of the error function is below 1.5e-7.
    """
    away = tl.abs(x) * 0.7071067811865476
    power = tl.exp(-away * away)
    t = 1.0 / (1.0 + 0.3275911 * away)
    series = -0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))
    tail = 0.5 * power * t * (0.254829592 + t * series)
    return tl.where(x >= 0.0, 1.0 - tail, tail), power * 0.3989422804014327


@triton.jit
def totals(partial_ptr, total_ptr, programs, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Add up the partial sums that the programs of a backward pass left."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = partial_ptr + tl.program_id(1) * programs * WIDTH
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, programs, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < programs)[:, None] & (column < WIDTH)[None, :]
        total += tl.load(first + row[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
    tl.store(total_ptr + tl.program_id(1) * WIDTH + column, tl.sum(total, 0), mask=column < WIDTH)


@triton.jit
def norm_forward(
    x_ptr, change_ptr, bias_ptr, gain_ptr, shift_ptr, seed_ptr, sum_ptr, out_ptr, mean_ptr, inverse_ptr,
    rows, epsilon, threshold, kept,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """sum = x + dropped(change + bias), if there is a change, and its layer norm."""
    row, column, offset, inside = _tile(tl.program_id(0), rows, WIDTH, BLOCK, ROWS)
    exists = column < WIDTH
    x = tl.load(x_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        change = tl.load(change_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        change += tl.load(bias_ptr + column, mask=exists, other=0.0)[None, :]
        if DROP:
            change = tl.where(_kept(row, column, seed_ptr, threshold, WIDTH), change * kept, 0.0)
        stored = (x + change).to(sum_ptr.dtype.element_ty)
        tl.store(sum_ptr + offset, stored, mask=inside)
        x = stored.to(tl.float32)
    mean = tl.sum(x, 1) / WIDTH
    centred = tl.where(exists[None, :], x - mean[:, None], 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, 1) / WIDTH + epsilon)
    gain = tl.load(gain_ptr + column, mask=exists, other=0.0)
    shift = tl.load(shift_ptr + column, mask=exists, other=0.0)
    out = centred * inverse[:, None] * gain[None, :] + shift[None, :]
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(mean_ptr + row, mean, mask=row < rows)
    tl.store(inverse_ptr + row, inverse, mask=row < rows)


@triton.jit
def norm_backward(
    dout_ptr, dsum_ptr, sum_ptr, mean_ptr, inverse_ptr, gain_ptr, seed_ptr, dx_ptr, dchange_ptr, partial_ptr,
    rows, tiles, threshold, kept,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Gradients of the sum, of the change under its dropout, and partial ones of gain, shift and bias."""
    program, programs, columns = tl.program_id(0), tl.num_programs(0), tl.arange(0, BLOCK)
    exists = columns < WIDTH
    gain = tl.load(gain_ptr + columns, mask=exists, other=0.0)
    dgain = tl.zeros((ROWS, BLOCK), tl.float32)
    dshift = tl.zeros((ROWS, BLOCK), tl.float32)
    dbias = tl.zeros((ROWS, BLOCK), tl.float32)
    for tile in tl.range(program, tiles, programs, num_stages=STAGES):
        row, column, offset, inside = _tile(tile, rows, WIDTH, BLOCK, ROWS)
        dout = tl.load(dout_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(sum_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row, mask=row < rows, other=0.0)
        inverse = tl.load(inverse_ptr + row, mask=row < rows, other=0.0)
        normed = tl.where(inside, (x - mean[:, None]) * inverse[:, None], 0.0)
        dgain += dout * normed
        dshift += dout
        scaled = dout * gain[None, :]
        level, slope = tl.sum(scaled, 1) / WIDTH, tl.sum(scaled * normed, 1) / WIDTH
        dx = inverse[:, None] * (scaled - level[:, None] - normed * slope[:, None])
        dx += tl.load(dsum_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx_ptr + offset, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        if ADD:
            dchange = tl.where(inside, dx, 0.0)
            if DROP:
                dchange = tl.where(_kept(row, column, seed_ptr, threshold, WIDTH), dchange * kept, 0.0)
            tl.store(dchange_ptr + offset, dchange.to(dchange_ptr.dtype.element_ty), mask=inside)
            dbias += dchange
    sums_ptr = partial_ptr + program * WIDTH + columns
    tl.store(sums_ptr, tl.sum(dgain, 0), mask=exists)
    tl.store(sums_ptr + programs * WIDTH, tl.sum(dshift, 0), mask=exists)
    if ADD:
        tl.store(sums_ptr + 2 * programs * WIDTH, tl.sum(dbias, 0), mask=exists)


@triton.jit
def add_forward(
    x_ptr, change_ptr, bias_ptr, seed_ptr, out_ptr, rows, threshold, kept,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """x + dropped(change + bias)."""
    row, column, offset, inside = _tile(tl.program_id(0), rows, WIDTH, BLOCK, ROWS)
    change = tl.load(change_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    change += tl.load(bias_ptr + column, mask=column < WIDTH, other=0.0)[None, :]
    if DROP:
        change = tl.where(_kept(row, column, seed_ptr, threshold, WIDTH), change * kept, 0.0)
    out = tl.load(x_ptr + offset, mask=inside, other=0.0).to(tl.float32) + change
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def add_backward(
    dout_ptr, seed_ptr, dchange_ptr, partial_ptr, rows, tiles, threshold, kept,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, STORE: tl.constexpr, DROP: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """The gradient of the change, and partial sums of it for the bias; without STORE the sums alone."""
    program, columns = tl.program_id(0), tl.arange(0, BLOCK)
    dbias = tl.zeros((ROWS, BLOCK), tl.float32)
    for tile in tl.range(program, tiles, tl.num_programs(0), num_stages=STAGES):
        row, column, offset, inside = _tile(tile, rows, WIDTH, BLOCK, ROWS)
        dchange = tl.load(dout_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        if DROP:
            dchange = tl.where(_kept(row, column, seed_ptr, threshold, WIDTH), dchange * kept, 0.0)
        if STORE:
            tl.store(dchange_ptr + offset, dchange.to(dchange_ptr.dtype.element_ty), mask=inside)
        dbias += dchange
    tl.store(partial_ptr + program * WIDTH + columns, tl.sum(dbias, 0), mask=columns < WIDTH)


@triton.jit
def activation_forward(
    x_ptr, bias_ptr, seed_ptr, out_ptr, rows, threshold, kept,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, GELU: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """dropped(activation(x + bias))."""
    row, column, offset, inside = _tile(tl.program_id(0), rows, WIDTH, BLOCK, ROWS)
    x = tl.load(x_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    x += tl.load(bias_ptr + column, mask=column < WIDTH, other=0.0)[None, :]
    if GELU:
        share, _ = _normal(x)
        out = x * share
    else:
        out = tl.maximum(x, 0.0)
    if DROP:
        out = tl.where(_kept(row, column, seed_ptr, threshold, WIDTH), out * kept, 0.0)
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def activation_backward(
    dout_ptr, kept_ptr, bias_ptr, seed_ptr, dx_ptr, partial_ptr, rows, tiles, threshold, kept,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, GELU: tl.constexpr, DROP: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Gradient of the entry, and partial sums of it; GELU keeps its input for that, ReLU reads all from its output."""
    program, columns = tl.program_id(0), tl.arange(0, BLOCK)
    dbias = tl.zeros((ROWS, BLOCK), tl.float32)
    bias = tl.load(bias_ptr + columns, mask=columns < WIDTH, other=0.0)
    for tile in tl.range(program, tiles, tl.num_programs(0), num_stages=STAGES):
        row, column, offset, inside = _tile(tile, rows, WIDTH, BLOCK, ROWS)
        dout = tl.load(dout_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        known = tl.load(kept_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        if GELU:
            known += bias[None, :]
            share, density = _normal(known)
            dx = dout * (share + known * density)
            if DROP:
                dx = tl.where(_kept(row, column, seed_ptr, threshold, WIDTH), dx * kept, 0.0)
        else:
            dx = tl.where(known > 0.0, dout * kept, 0.0)
        tl.store(dx_ptr + offset, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        dbias += dx
    tl.store(partial_ptr + program * WIDTH + columns, tl.sum(dbias, 0), mask=columns < WIDTH)


@triton.jit
def embedding_forward(
    value_ptr, weight_ptr, bias_ptr, out_ptr, rows,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """GELU(value * weight + bias): a row of numbers from every single number."""
    row, column, offset, inside = _tile(tl.program_id(0), rows, WIDTH, BLOCK, ROWS)
    value = tl.load(value_ptr + row, mask=row < rows, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=column < WIDTH, other=0.0)
    x = value[:, None] * weight[None, :] + tl.load(bias_ptr + column, mask=column < WIDTH, other=0.0)[None, :]
    share, _ = _normal(x)
    tl.store(out_ptr + offset, (x * share).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def embedding_backward(
    dout_ptr, value_ptr, weight_ptr, bias_ptr, partial_ptr, rows, tiles,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Partial gradients of weight and bias."""
    program, programs, columns = tl.program_id(0), tl.num_programs(0), tl.arange(0, BLOCK)
    exists = columns < WIDTH
    weight = tl.load(weight_ptr + columns, mask=exists, other=0.0)
    bias = tl.load(bias_ptr + columns, mask=exists, other=0.0)
    dweight = tl.zeros((ROWS, BLOCK), tl.float32)
    dbias = tl.zeros((ROWS, BLOCK), tl.float32)
    for tile in tl.range(program, tiles, programs, num_stages=STAGES):
        row, _, offset, inside = _tile(tile, rows, WIDTH, BLOCK, ROWS)
        value = tl.load(value_ptr + row, mask=row < rows, other=0.0).to(tl.float32)
        x = value[:, None] * weight[None, :] + bias[None, :]
        share, density = _normal(x)
        dx = tl.load(dout_ptr + offset, mask=inside, other=0.0).to(tl.float32) * (share + x * density)
        dweight += dx * value[:, None]
        dbias += dx
    sums_ptr = partial_ptr + program * WIDTH + columns
    tl.store(sums_ptr, tl.sum(dweight, 0), mask=exists)
    tl.store(sums_ptr + programs * WIDTH, tl.sum(dbias, 0), mask=exists)
