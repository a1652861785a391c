"""What a training step costs, on a terminal."""

from crossfeed.cli.render.printing import say, show
from crossfeed.show.tables import plain_table, plural
from crossfeed.training.devices.bench import Bench


def show_bench(found: Bench) -> None:
    """Print step time beside the plain pipeline, throughput, share of the peak, and where the time goes."""
    rates = [1000.0 * found.batch / milliseconds for milliseconds in (found.step_ms, found.plain_ms)]
    rows = [
        ["step", _time(found.step_ms), _time(found.plain_ms)],
        ["windows a second", *(f"{rate:,.0f}" for rate in rates)],
        ["share of the matrix-product peak", f"{found.share_of_peak:.0%}", ""],
        *([f"  {name}", _time(milliseconds), ""] for name, milliseconds in found.parts_ms.items()),
    ]
    if found.peak_gib is not None:
        rows.append(["largest memory", f"{found.peak_gib:.1f} GiB", ""])
    where = f"{found.device}, torch {found.torch}, {found.precision}"
    if found.threads is not None:
        where += f", {plural(found.threads, 'thread')}"
    title = f"A training step: {found.preset}, {found.size}, batch {found.batch}"
    show(plain_table(title, ["", "crossfeed", "plain"], rows))
    say(where, *remarks(found))


def remarks(found: Bench) -> list[str]:
    """What the figures mean, one remark a line."""
    lines = [
        f"{found.gigaflop:,.0f} GFLOP a step; a large matrix product runs at {found.peak_gigaflops:,.0f} GFLOP/s here. "
        "Parts are timed one by one; validation is for as many windows as a batch has."
    ]
    if len(found.threads_ms) > 1:
        timed = ", ".join(f"{_time(value)} with {count}" for count, value in sorted(found.threads_ms.items()))
        lines.append(f"Threads: a step takes {timed}. Set OMP_NUM_THREADS={found.threads} to train like this.")
    return lines


def _time(milliseconds: float) -> str:
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100.0 else f"{milliseconds:.2f} ms"
