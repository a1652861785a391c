"""crossfeed control: plans, policies and what they would have saved. Nothing is ever sent to a machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from crossfeed.cli.common import Device, Json, Model, MotionFile, Session

app = typer.Typer(
    name="control",
    help="From forecasts to decisions: overrides for a program, and when to leave it alone. It writes files only.",
    no_args_is_help=True,
)

Program = Annotated[str, typer.Option(help="The NC program, or bundled:NAME.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")]
Limits = Annotated[Path | None, typer.Option("--limits", help="YAML file with the task: limits, objective, knobs.")]
LimitTexts = Annotated[
    list[str] | None, typer.Option("--limit", help="A further limit, such as 'spindle_power<=8 kW'; can be repeated.")
]


@app.command()
def plan(
    model: Model,
    history: Annotated[Path, typer.Option(help="Table with the rows before the program starts.")],
    program: Program,
    limits: Limits = None,
    limit: LimitTexts = None,
    feed: Annotated[str | None, typer.Option(help="Range of the feed override in per cent: 50..120.")] = None,
    spindle: Annotated[str | None, typer.Option(help="Range of the spindle override in per cent: 90..110.")] = None,
    price: Annotated[str | None, typer.Option(help="What a kWh is worth in seconds: '15 s/kWh'.")] = None,
    base_load: Annotated[str | None, typer.Option(help="What the machine draws beside its drives: '1.4 kW'.")] = None,
    within: Annotated[str | None, typer.Option(help="Least energy within this time: '280 s'.")] = None,
    leave: Annotated[list[str] | None, typer.Option(help="A tool whose cuts stay as written; repeatable.")] = None,
    motion: MotionFile = None,
    session: Session = None,
    at: Annotated[float | None, typer.Option(help="Seconds after the session's first row.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for plan.json, schedule.csv, blocks.csv, plan.png.")
    ] = None,
    write_program: Annotated[
        bool, typer.Option("--write-program", help="Also a copy of the program with changed F words.")
    ] = False,
    rehearse_on: Annotated[
        str | None, typer.Option(help="Play the plan on a simulated machine first: spinner_620 or random:SEED.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Sampled futures, at least 20.")] = 32,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Plan the overrides of a program: act where the gain is sure and no limit is in danger, else leave it alone.

    Example: crossfeed control plan run/ --history log.parquet --program part.mpf --limits limits.yaml --out plan/
    """
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_advice
    from crossfeed.control.advise import advise
    from crossfeed.control.task import knob_text, read_task
    from crossfeed.programs.motion import read_motion_limits

    changes: dict[str, Any] = {"limits": limit or []}
    objective = {"price": price, "base_load": base_load, "within": within, "minimise": "energy" if within else None}
    changes["objective"] = {name: value for name, value in objective.items() if value is not None}
    changes |= {name: knob_text(text, name) for name, text in (("feed", feed), ("spindle", spindle)) if text}
    changes |= {"leave": leave} if leave else {}
    advice = advise(
        model, history, program, read_task(limits, changes), session=session, at=at, samples=samples, seed=seed,
        motion_limits=read_motion_limits(motion) if motion else None, device=device, out=out,
        write_program=write_program, rehearse_on=rehearse_on,
    )  # fmt: skip
    print_result(advice.content, json, lambda: show_advice(advice.content, advice.files))


@app.command()
def collect(
    program: Program,
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV file for the log.")],
    machine: Annotated[
        str, typer.Option(help="A simulated machine: spinner_620, spinner_630 or random:SEED.")
    ] = "spinner_620",
    runs: Annotated[int, typer.Option(min=1, help="Whole programs to run.")] = 100,
    stretch: Annotated[int, typer.Option(min=1, help="Seconds of the program under one override.")] = 20,
    dither: Annotated[float, typer.Option(help="Standard deviation of the dither, in per cent: 2 to 5.")] = 4.0,
    limits: Limits = None,
    seed: Seed = 0,
) -> None:
    """Run a program on a simulated machine with a safe dither of the feed, for judging policies from the log.

    Example: crossfeed control collect --program bundled:face_pocket --runs 100 --out log.csv
    """
    import numpy as np

    from crossfeed.control.machine import Workpiece
    from crossfeed.control.offpolicy import LinearPolicy
    from crossfeed.control.task import read_task
    from crossfeed.control.timeline import Timeline
    from crossfeed.control.trial import FEATURES
    from crossfeed.control.trial import collect as run_with_dither
    from crossfeed.programs.parse import program_path
    from crossfeed.schema import canonical

    piece, task = Workpiece.on(machine, program_path(program)), read_task(limits)
    timeline = Timeline.of(piece.program, canonical(), 1.0, piece.motion_limits)
    around = LinearPolicy(1.0, np.zeros(len(FEATURES)), dither / 100.0)
    log = run_with_dither(piece, timeline, task, around, runs, stretch, seed)
    log.write(out)
    typer.echo(f"{runs} runs of {timeline.name} in {log.override_NH.shape[1]} stretches each: {out}")


@app.command()
def judge(
    log: Annotated[Path, typer.Argument(help="CSV with run, stretch, override, reward and features.")],
    policy: Annotated[Path, typer.Option(help="YAML file: intercept, weights by feature, spread.")],
    clip: Annotated[float, typer.Option(help="Weights above this are cut.")] = 20.0,
    json: Json = False,
) -> None:
    """What a policy would have earned, from logs of another: an interval by weighted importance sampling, or why not.

    Example: crossfeed control judge log.csv --policy policy.yaml
    """
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_value
    from crossfeed.control.offpolicy import judge as estimate
    from crossfeed.control.offpolicy import read_log, read_policy

    read = read_log(log)
    value = estimate(read, read_policy(policy, read.features), clip=clip)
    print_result(value, json, lambda: show_value(value, float(read.reward_NH.sum(axis=1).mean())))


@app.command()
def learn(
    model: Model,
    history: Annotated[Path, typer.Option(help="Table with logged rows: branches begin at its moments.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the policy, such as policy.safetensors.")],
    limits: Limits = None,
    limit: LimitTexts = None,
    steps: Annotated[int, typer.Option(min=1, help="Imagined seconds for every seed.")] = 60_000,
    seeds: Annotated[int, typer.Option(min=1, help="Policies to learn; the best one is kept.")] = 3,
) -> None:
    """Learn a policy inside the model, in short branches of a log, and export it as a small network.

    Example: crossfeed control learn run/ --history log.parquet --limits limits.yaml --out policy.safetensors
    """
    from crossfeed.configuration import parse
    from crossfeed.control.advise import check_command_use
    from crossfeed.control.task import read_task
    from crossfeed.errors import need
    from crossfeed.evaluation.opened_model import open_model

    need("stable_baselines3", "Learning a policy", "control")
    from crossfeed.control.learn import LearnConfig
    from crossfeed.control.learn import learn as learn_policy

    opened = open_model(model, "cpu")
    check_command_use(opened)
    task = read_task(limits, {"limits": limit or []})
    config = parse(LearnConfig, {"steps": steps, "seeds": seeds}, "The learning")
    policy = learn_policy(opened.model, history, task, config, out)
    about = policy.about
    typer.echo(
        f"{out}: in branches it was not trained on a second earns {about['earned']:+.4f} s, as written "
        f"{about['as_written']:+.4f} s (all seeds: {', '.join(f'{value:+.4f}' for value in about['all_seeds'])})"
    )
