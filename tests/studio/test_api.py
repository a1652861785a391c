"""What programs get: the same numbers as Python, in physical units by name; and refusals in three parts."""

import asyncio
import gzip
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from crossfeed.evaluation.opened_model import open_model
from crossfeed.scenarios.history import read_history
from crossfeed.scenarios.what_if import what_if
from crossfeed.studio.model_facts import recorded_verdict
from crossfeed.studio.service import Service
from tests.studio.conftest import Client, Place, talk

MOMENT = {"session": "mill/run1/session1", "at": 30.0}
PROGRAM = b"N10 G54 G90\nN20 S1000 M3\nN30 G1 X50 F600\nN40 X0\nN50 M30\n"


def asked(service: Service, path: str, content: Any, status: int = 200) -> Any:
    async def ask(client: Client) -> Any:
        answer = await client.post(path, json=content)
        assert answer.status_code == status, answer.text
        return answer.json()

    return talk(service, ask)


def test_a_forecast_is_what_the_model_says_from_python(make_service: Callable[..., Service], place: Place) -> None:
    service = make_service()
    answer = asked(service, "/api/forecast", {**MOMENT, "levels": [0.05, 0.95]})
    plan = answer["plans"]["as planned"]
    group = place.table.groups[1]
    rows = slice(group.start, group.start + 31)
    history = np.concatenate([place.table.sensors[rows], place.table.commands[rows]], axis=1)
    said = service.opened.model.forecast(history, place.table.commands[group.start + 31 : group.stop])
    assert plan["time"] == [1.0, 2.0, 4.0]
    assert answer["units"]["power"] == "kW"
    for column, name in enumerate(("current", "power", "temperature")):
        assert plan["sensors"][name]["mean"] == pytest.approx(said.mean[:, column].tolist(), rel=1e-4)
        low = said.quantiles([0.05])[0][:, column].tolist()
        assert plan["sensors"][name]["quantiles"]["0.05"] == pytest.approx(low, rel=1e-3, abs=1e-3)


def test_rows_sent_along_give_the_same_as_rows_of_the_table(make_service: Callable[..., Service], place: Place) -> None:
    group = place.table.groups[1]
    names = (*place.table.schema.sensor_names, *place.table.schema.command_names)
    rows = slice(group.start, group.start + 31)
    values = np.concatenate([place.table.sensors[rows], place.table.commands[rows]], axis=1)
    sent = {"history": dict(zip(names, values.T.tolist())), "plans": [{"kind": "held"}]}
    without = make_service(history=False)
    own = asked(make_service(), "/api/forecast", {**MOMENT, "plans": [{"kind": "held"}]})
    answer = asked(without, "/api/forecast", sent)
    (theirs,), (ours,) = answer["plans"].values(), own["plans"].values()
    assert theirs["sensors"]["power"]["mean"] == pytest.approx(ours["sensors"]["power"]["mean"], rel=1e-5)
    refused = asked(without, "/api/forecast", {}, 409)
    assert "no history of its own" in refused["error"]["found"]


def test_requests_at_the_same_time_share_passes(make_service: Callable[..., Service]) -> None:
    service = make_service()

    async def ask(client: Client) -> list[Any]:
        questions = [{**MOMENT, "at": 20.0 + number, "plans": [{"kind": "held"}] * 2} for number in range(12)]
        answers = await asyncio.gather(*(client.post("/api/forecast", json=one) for one in questions))
        return [answer.json() for answer in answers]

    together = talk(service, ask)
    alone = asked(make_service(), "/api/forecast", {**MOMENT, "at": 25.0, "plans": [{"kind": "held"}] * 2})
    passes = float(next(line for line in service.metrics.text().split("\n") if "batch_size_count" in line).split()[1])
    assert passes < 24.0
    name = next(iter(alone["plans"]))
    assert together[5]["plans"][name]["sensors"]["power"]["mean"] == pytest.approx(
        alone["plans"][name]["sensors"]["power"]["mean"], rel=1e-4
    )


def test_a_what_if_is_the_what_if_of_the_command_line(make_service: Callable[..., Service], place: Place) -> None:
    service = make_service()
    question = {**MOMENT, "plans": [{}, {"feed": 50.0}], "seconds": 8.0, "samples": 24, "limits": {"power": 1.0}}
    answer = asked(service, "/api/what-if", question)
    history = read_history(place.table, service.opened.model, MOMENT["session"], 30.0)
    own = what_if(service.opened, history, ["table"], seconds=8.0, samples=24)
    assert list(answer["plans"]) == ["as planned", "as planned, feed 50 %"]
    first = answer["plans"]["as planned"]
    assert first["energy"]["mean"] == pytest.approx(own.plans["table"].energy.mean, rel=1e-6)
    assert 0.0 <= first["peaks"]["power"]["probability"] <= 1.0
    assert first["truth"]["power"] is not None
    assert answer["plans"]["as planned, feed 50 %"]["truth"] is None
    assert "energy" in answer["comparisons"][0]["reading"]
    commands = {name: np.array(plan["commands"]["feed_x"]) for name, plan in answer["plans"].items()}
    done = [values.sum() for values in commands.values()]
    assert done[1] == pytest.approx(done[0])  # the slower plan does the same work, in more time


def test_the_beginning_of_a_program_longer_than_an_hour_is_forecast(make_service: Callable[..., Service]) -> None:
    rows = {name: [0.0] * 4000 for name in ("spindle_speed", "feed_x")}
    plan = {"kind": "commands", "commands": rows}
    answer = asked(make_service(), "/api/forecast", {**MOMENT, "plans": [plan], "seconds": 16.0})
    assert len(answer["plans"]["sent rows"]["commands"]["feed_x"]) == 16


@pytest.mark.parametrize(
    ("content", "status", "found"),
    [
        ({**MOMENT, "plans": [{}] * 5}, 422, "5 plans"),
        ({**MOMENT, "samples": 10_000}, 422, "10000 samples"),
        ({**MOMENT, "samples": 3}, 422, "samples"),
        ({**MOMENT, "limits": {"nose": 3.0}}, 422, "'nose'"),
        ({"session": "../../etc/passwd"}, 422, "no session"),
        ({"session": MOMENT["session"], "at": 1e9}, 422, "no moment"),
        ({**MOMENT, "plans": [{"kind": "program", "program": "/etc/passwd"}]}, 404, "no program"),
        ({**MOMENT, "plans": [{"kind": "program", "program": "bundled:../../x"}]}, 404, "no program"),
        ({**MOMENT, "plans": [{"kind": "program"}]}, 422, "names no program"),
        ({**MOMENT, "plans": [{"kind": "commands"}]}, 422, "no rows"),
        ({**MOMENT, "plans": [{"kind": "commands", "commands": {"feed_x": [1.0]}}]}, 422, "spindle_speed"),
        ({**MOMENT, "plans": [{"feed": 0.0}]}, 422, "feed"),
        ({**MOMENT, "unknown": 1}, 422, "unknown"),
        ([], 422, "request"),
        ({"history": {"power": [1.0] * 20}}, 422, "lacks values"),
        ({"history": {"nonsense": [1.0] * 20}}, 422, "unknown column"),
    ],
)
def test_bad_questions_are_refused_in_three_parts(
    make_service: Callable[..., Service], content: Any, status: int, found: str
) -> None:
    answer = asked(make_service(), "/api/what-if", content, status)
    assert set(answer["error"]) == {"found", "expected", "remedy"}
    assert found in answer["error"]["found"]


def test_numbers_that_are_none_are_refused(make_service: Callable[..., Service]) -> None:
    async def ask(client: Client) -> None:
        body = b'{"plans": [{"kind": "commands", "commands": {"spindle_speed": [NaN], "feed_x": [1e999]}}]}'
        answer = await client.post("/api/forecast", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        broken = await client.post("/api/forecast", content=b"{", headers={"content-type": "application/json"})
        assert broken.status_code == 422
        assert broken.json()["error"]["found"]

    talk(make_service(), ask)


def test_an_uploaded_program_becomes_a_plan_and_its_name_is_never_a_path(make_service: Callable[..., Service]) -> None:
    service = make_service()

    async def ask(client: Client) -> None:
        name = "../../../etc/cron.d/part\x00.mpf"
        sent = await client.post("/api/programs", files={"file": (name, PROGRAM, "text/plain")})
        assert sent.status_code == 201, sent.text
        kept = sent.json()
        assert "/" not in kept["name"]
        plans = [{"kind": "program", "program": kept["id"]}, {"kind": "program", "program": kept["id"], "feed": 50.0}]
        answer = await client.post("/api/what-if", json={**MOMENT, "plans": plans, "samples": 20})
        assert answer.status_code == 200, answer.text
        first, slower = answer.json()["plans"].values()
        assert slower["duration"] > 1.5 * first["duration"]
        table = b"spindle_speed,feed_x\n1000,200\n1000,200\n"
        kept = (await client.post("/api/programs", files={"file": ("plan.csv", table)})).json()
        assert kept["kind"] == "table"
        plans = [{"kind": "program", "program": kept["id"]}]
        answer = await client.post("/api/forecast", json={**MOMENT, "plans": plans})
        assert answer.json()["plans"]["plan.csv"]["time"] == [1.0, 2.0]
        for name, content in {"a.parquet": b"PAR1", "b.mpf": b"\0\1", "c.mpf": b"hello", "d.csv": b"\xff\xfe"}.items():
            refused = await client.post("/api/programs", files={"file": (name, content)})
            assert refused.status_code in (415, 422), refused.text
            assert "crossfeed-upload" not in refused.text

    talk(service, ask)


def test_only_the_last_uploads_are_kept(make_service: Callable[..., Service]) -> None:
    async def ask(client: Client) -> None:
        ids = [
            (await client.post("/api/programs", files={"file": (f"{n}.mpf", PROGRAM)})).json()["id"] for n in range(3)
        ]
        plans = [{"kind": "program", "program": ids[0]}]
        assert (await client.post("/api/forecast", json={**MOMENT, "plans": plans})).status_code == 404
        plans = [{"kind": "program", "program": ids[2]}]
        assert (await client.post("/api/forecast", json={**MOMENT, "plans": plans})).status_code == 200

    talk(make_service({"uploads": 2}), ask)


def test_facts_trust_runs_and_docs_answer(make_service: Callable[..., Service]) -> None:
    async def ask(client: Client) -> None:
        facts = (await client.get("/api/model")).json()
        assert [one["name"] for one in facts["sensors"]] == ["current", "power", "temperature"]
        assert facts["commands"][0] == {
            "name": "spindle_speed", "quantity": "rotational speed", "unit": "rpm", "range": [0.0, 3000.0],
        }  # fmt: skip
        assert (await client.get("/api/sessions")).json()["sessions"][0]["seconds"] == 59.0
        trust = (await client.get("/api/trust")).json()
        assert trust["recorded"]["answer"] == "Not known yet."
        assert (await client.get("/api/runs")).json() == {"studies": [], "comparisons": [], "trainings": []}
        api = (await client.get("/api/openapi.json")).json()
        wanted = {"/api/model", "/api/forecast", "/api/what-if", "/api/live", "/metrics", "/healthz", "/api/programs"}
        assert wanted <= set(api["paths"])
        assert (await client.get("/api/nothing")).json()["error"]["found"] == "Not Found."
        assert (await client.delete("/api/model")).status_code == 405

    talk(make_service(), ask)


def test_page_files_hold_no_address_of_another_host(make_service: Callable[..., Service]) -> None:
    from crossfeed.studio.app import PLOTLY, page_files

    files = page_files()
    size = sum(len(gzip.compress(file.read_bytes(), 6)) for path, file in files.items() if path != "/docs")
    assert size <= 1.6e6
    for path, file in files.items():
        if path != PLOTLY:
            text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert "http://" not in text, path
            assert "https://" not in text, path
            assert "style=" not in text, path
            assert "innerHTML" not in text, path

    async def ask(client: Client) -> None:
        page = await client.get("/")
        assert page.headers["content-encoding"] == "gzip"
        again = await client.get("/", headers={"if-none-match": page.headers["etag"]})
        assert again.status_code == 304
        plain = await client.get("/", headers={"accept-encoding": "identity"})
        assert plain.text == page.text

    talk(make_service(), ask)


def test_a_recorded_study_or_run_is_shown_with_its_progress(tmp_path: Any) -> None:
    from crossfeed.files import write_sealed
    from crossfeed.studio.model_facts import runs_content

    (tmp_path / "rivals" / "runs").mkdir(parents=True)
    write_sealed(tmp_path / "rivals" / "comparison.json", {"size": "tiny"})
    scores = {"target": {"rmse": 0.5, "crps": 0.2, "coverage90": 0.9, "other": 1}}
    result = {"model": "gru", "seed": 0, "status": "finished", "scores": scores}
    write_sealed(tmp_path / "rivals" / "runs" / "gru-seed0.json", result)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "study.db").write_bytes(b"not a database")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    told = runs_content([tmp_path])
    assert told["comparisons"][0]["results"][0]["scores"]["target"]["rmse"] == 0.5
    assert told["comparisons"][0]["finished"] is False
    assert "problem" in told["studies"][0]
    assert told["trainings"] == [{"name": "run", "finished": False, "epochs": 0}]


def test_the_shipped_model_was_to_be_judged_in_a_folder_of_the_package() -> None:
    (step,) = recorded_verdict(open_model("fleet", "cpu", many_machines=True))["next"]
    assert step == "Judge it with crossfeed evaluate fleet --table TABLE."
