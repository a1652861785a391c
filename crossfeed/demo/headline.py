"""The last page: one table and some honest sentences."""

import json
from pathlib import Path
from typing import Any

from crossfeed.demo.rivals import finished_rivals
from crossfeed.demo.selection import REFUSAL, chosen_run, is_locked, opening
from crossfeed.json_file import write_sealed

HEADLINE = "headline.json"
METRICS = {"rmse": "RMSE", "mae": "MAE", "crps": "CRPS", "coverage90": "in 90 %"}


def headline(folder: Path) -> dict[str, Any]:
    """Everything the last table shows, as plain data."""
    judged = "target" if is_locked(folder) else "source"
    rows = {
        name: {metric: mean[f"{judged}.{metric}"] for metric in METRICS}
        for name, mean in finished_rivals(folder).items()
    }
    content: dict[str, Any] = {"judged_on": judged, "locked": is_locked(folder), "model": chosen_run(folder)}
    if is_locked(folder):
        found = opening(folder)
        name = content["model"]
        rows = {"crossfeed (locked)": {metric: found["scores"][name][metric] for metric in METRICS}, **rows}
        content["windows"], content["runs"] = found["windows"], len(found["runs"])
        adapted = found.get("adaptation", {})
        if "few_shot" in adapted:
            content["few_shot"] = {str(row["fraction"]): row["rmse"] for row in adapted["few_shot"]["fractions"]}
        if "online" in adapted:
            content["online"] = {name: adapted["online"][name]["rmse"] for name in ("zero_shot", "online")}
    else:
        content["refused"] = json.loads((folder / REFUSAL).read_text(encoding="utf-8"))
    content["rows"] = rows
    write_sealed(folder / HEADLINE, content)
    return content


def sentences(content: dict[str, Any], simulated: bool) -> list[str]:
    """What belongs beside the numbers."""
    said = ["Errors in standard deviations of the source machine; in 90 %: share of truths inside the 90 % interval."]
    if "few_shot" in content:
        steps = ", ".join(f"{float(share):.0%}: {rmse:.3f}" for share, rmse in content["few_shot"].items())
        said.append(f"Few-shot, RMSE after learning from the first part of each run, judged on the rest: {steps}.")
    if "online" in content:
        before, after = content["online"]["zero_shot"], content["online"]["online"]
        said.append(f"Online, RMSE without and with learning while the machine runs: {before:.3f}, {after:.3f}.")
    if not content["locked"]:
        said.append(f"The lock was refused ({'; '.join(content['refused'])}), so the target stayed sealed.")
    if simulated:
        said.append("Both machines are simulated; thws and joanneum are the formats of their logs, not the data sets.")
    else:
        said.append("One physical machine: the target is its later runs with sensors taken away, not another machine.")
    said.append("Minutes of training on a narrow model: this shows how the work goes, not how good it gets.")
    return said
