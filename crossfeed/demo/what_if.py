"""Two candidate command sequences asked of the chosen model, and the simulator's word on changed commands."""

import json
from pathlib import Path
from typing import Any

from crossfeed.demo.chapter import Told
from crossfeed.demo.selection import RELEASED, is_locked, model_folder
from crossfeed.demo.tables import SOURCE

FORECAST, EVALUATION = "what_if", "evaluation"
# A bracket milled as programmed, and with all feeds at 70 %; on real logs the commands that followed, and the same at 70 %.
PROGRAMS = ("bundled:bracket", "bundled:bracket@feed=70")
LOGGED = ("table", "table@feed=70")
MACHINES = {"target": "spinner_630", "source": "spinner_620"}


def asked_table(folder: Path) -> Path:
    """The machine that is asked about: the target once it was opened, the source before."""
    return folder / (RELEASED if is_locked(folder) else SOURCE)


def forecast(folder: Path, simulated: bool) -> Told:
    """Forecast under two plans and say what they cost."""
    from crossfeed.serving.what_if import what_if

    plans = list(PROGRAMS if simulated else LOGGED)
    out = folder / FORECAST
    content = what_if(model_folder(folder), asked_table(folder), plans, samples=32, out=out).content
    return Told(in_words(content), (f"{FORECAST}/forecast.json", f"{FORECAST}/forecast.png"))


def in_words(content: dict[str, Any]) -> str:
    """Duration and energy of each plan, and how sure the difference is."""
    parts = []
    for name, plan in content["plans"].items():
        energy = plan["energy"]
        needs = "" if energy is None else f", {energy['mean']:.0f} {energy['unit']} ({energy['low']:.0f} to {energy['high']:.0f})"
        parts.append(f"{name} {plan['duration']:.0f} s{needs}")
    said = "; ".join(parts)
    for comparison in content["comparisons"]:
        said += f"; the second needs less in {comparison['probability_less']:.0%} of the futures"
    return said


def counterfactual(folder: Path) -> Told:
    """Roll the simulated machine out under changed plans and see how much of the change was foreseen."""
    from crossfeed.evaluation.model_evaluation import evaluate_model

    machine = MACHINES["target" if is_locked(folder) else "source"]
    path = folder / EVALUATION / "evaluation.json"
    if not path.exists():
        evaluate_model(
            model_folder(folder), asked_table(folder), source=folder / SOURCE, machine=machine,
            out=folder / EVALUATION, device="cpu",
        )  # fmt: skip
    found = json.loads(path.read_text(encoding="utf-8"))["counterfactual"]
    altered = {name: row for name, row in found.items() if isinstance(row, dict) and "persistence" in row}
    said = ", ".join(f"{name} {row['rmse']:.2f} (persistence {row['persistence']:.2f})" for name, row in altered.items())
    return Told(f"{found['cases']} moments of {machine}, RMSE under the changed plan: {said}", (f"{EVALUATION}/evaluation.json",))
