"""Ready studies and declared ablations on a terminal: arms against their reference, machines left out."""

from typing import TYPE_CHECKING

from crossfeed.cli.render.grid import print_json, print_table
from crossfeed.errors import ConfigError
from crossfeed.progress import output

if TYPE_CHECKING:
    from crossfeed.study.study import Study


def show_arms(study: "Study", metric: str = "clean", as_json: bool = False) -> None:
    """What ready studies and declared ablations found: machines left out, arms against their reference."""
    from crossfeed.study.contrast import comparisons

    held_out = study.held_out()
    if not held_out or any(comparisons(study.store)):
        _contrast_table(study, metric, as_json)
        return
    if as_json:
        print_json(held_out)
        return
    names = ["machine", "never seen", "sd", "in training", "difference", "last value", "better than it", "in 90 %"]
    rows = [
        [
            line.machine, line.held_out, line.held_out_spread, line.trained, line.difference, line.persistence,
            f"{line.beats_persistence} of {line.seeds}", line.coverage90, line.leakage,
        ]
        for line in held_out
    ]  # fmt: skip
    print_table("leave-one-out: RMSE of each machine on its validation side", [*names, "leakage"], rows)


def _contrast_table(study: "Study", metric: str, as_json: bool) -> None:
    """Arms against their reference: differences, intervals over seeds, exact p values and the floor they can reach."""
    from crossfeed.study.contrast import HIGHER_IS_BETTER, METRICS

    if metric not in METRICS:
        raise ConfigError(f"There is no metric '{metric}' to contrast.", expected=f"one of {', '.join(METRICS)}")
    lines = study.contrasts()
    if as_json:
        print_json(lines)
        return
    names = ["arm", "mean", "sd", "difference", "95 % over seeds", "better", "p", "Holm", "floor", "collapsed"]
    for title in dict.fromkeys(line.contrast for line in lines):
        chosen = [line for line in lines if (line.contrast, line.metric) == (title, metric)]
        if not chosen:
            output().print(f"{title}: these networks have no {metric}, because they have no latents.", highlight=False)
            continue
        rows = [
            [
                line.arm, line.mean, line.deviation, line.difference,
                "" if line.low is None else f"{line.low:+.3f} to {line.high:+.3f}",
                "" if line is chosen[0] else f"{line.wins} of {line.seeds}",
                line.p, line.p_holm, line.floor, line.collapsed_seeds,
            ]
            for line in chosen
        ]  # fmt: skip
        sign = "positive" if metric in HIGHER_IS_BETTER else "negative"
        print_table(f"{title}: {metric} against {chosen[0].arm} ({sign} differences favour the arm)", names, rows)
        for line in chosen[1:]:
            output().print(f"{line.arm}: {line.verdict}", highlight=False)
