"""A plan is rehearsed on a simulated machine, and the report tells of it."""

import json

from crossfeed.control.advise import advise
from crossfeed.control.plan_record import RecordedPlan
from crossfeed.control.task import read_task
from crossfeed.front.report.artefacts import Artefacts
from crossfeed.front.report.sections.beside import decisions


def test_a_faster_plan_is_faster_on_the_machine_and_the_report_says_so(files):
    task = read_task(None, {"limits": ["spindle_torque<=1000"]})
    content = advise(files.model, files.log, str(files.program), task, samples=20, rehearse_on="spinner_620").content
    played = content["rehearsal"]
    assert played["planned"]["seconds"] < played["as_written"]["seconds"]
    assert played["acted_rightly"] >= 0.8 * played["acted"] > 0
    assert played["acted"] + played["left_alone"] == content["stretches"]["all"]
    blocks = decisions(Artefacts(files.folder, decisions=[RecordedPlan.from_dict(json.loads(json.dumps(content)))]))
    totals = next(block for block in blocks if getattr(block, "name", "") == "decisions-totals")
    words = " ".join(str(row) for row in totals.rows)
    assert "acting was right" in words
    assert f"-> {played['planned']['seconds']:.0f}" in words


def test_without_plans_there_is_no_chapter(files):
    assert decisions(Artefacts(files.folder)) == []
