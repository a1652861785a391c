"""MQTT through a real broker: JSON by mapping, Sparkplug B with birth, death and missing messages."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("aiomqtt", reason="the extra 'live' is not installed")
pytest.importorskip("amqtt", reason="the extra 'live' is not installed")

from crossfeed.errors import ConfigError, LogError
from crossfeed.live.mqtt import MqttSource
from crossfeed.live.simulated.feed import SimulatedFeed
from crossfeed.live.simulated.mqtt_publisher import MqttPublisher
from crossfeed.live.source import Sample
from crossfeed.live.sources import check_address
from crossfeed.live.sparkplug import Metric, Payload, decode, encode
from tests.live.conftest import LIMIT_S, within
from tests.live.servers import free_port, hear, notices, samples, staged


@pytest.fixture(scope="module")
def feed() -> SimulatedFeed:
    return SimulatedFeed()


@pytest.mark.parametrize("sparkplug", [False, True])
def test_a_machine_is_found_heard_lost_and_found_again(sparkplug: bool, feed: SimulatedFeed) -> None:
    async def work() -> None:
        publisher = MqttPublisher(feed, free_port(), sparkplug)
        async with staged(feed, publisher) as stage:
            source = MqttSource(publisher.address)
            found = await source.propose(10.0)
            assert {column.channel for column in found.mapping.columns if column.native} == set(feed.channels)
            source._mapping, source._names = found.mapping, found.mapping.names()
            arrivals = source.arrivals()
            first = await hear(arrivals, lambda found: len(samples(found, "spindle_power")) >= 10)
            told = {stamp // 1000: step.values["spindle_power"] for stamp, step in stage.told}
            for one in samples(first, "spindle_power"):
                assert one.value == told[one.time // 1000]
            stage.missing = frozenset({"x_torque"})
            dead = await hear(arrivals, lambda found: any(one.value is None for one in samples(found, "x_torque")))
            assert all(one.value is not None for one in samples(dead, "spindle_power"))
            stage.missing = frozenset()
            if sparkplug:
                await publisher.die()
                death = await hear(arrivals, lambda found: notices(found, "gap"))
                assert "dead" in notices(death, "degraded")[0].text
            await stage.vanish()
            await hear(arrivals, lambda found: notices(found, "degraded"))
            await stage.return_()
            back = await hear(arrivals, lambda found: len(samples(found, "spindle_power")) >= 5)
            assert notices(back, "reconnect")
            (gap,) = notices(back, "gap")
            assert not [one for one in back if isinstance(one, Sample) and gap.begin < one.time < gap.end]

    within(2 * LIMIT_S, work)


_VALUES = st.one_of(st.none(), st.floats(allow_nan=False), st.text(max_size=20))
_METRICS = st.builds(
    Metric,
    name=st.one_of(st.none(), st.text(max_size=30)),
    value=_VALUES,
    time=st.one_of(st.none(), st.integers(0, 2**63)),
    alias=st.one_of(st.none(), st.integers(0, 2**63)),
    historical=st.booleans(),
)


@given(
    metrics=st.lists(_METRICS, max_size=5),
    time=st.one_of(st.none(), st.integers(0, 2**63)),
    sequence=st.integers(0, 255),
)
def test_a_payload_comes_back_as_it_was_written(metrics: list[Metric], time: int | None, sequence: int) -> None:
    found = decode(encode(Payload(time, tuple(metrics), sequence)))
    assert (found.time, found.sequence) == (time, sequence)
    for back, metric in zip(found.metrics, metrics, strict=True):
        assert (back.name, back.value, back.time, back.alias, back.historical) == (
            metric.name, metric.value, metric.time, metric.alias, metric.historical,
        )  # fmt: skip


@given(content=st.binary(max_size=60))
def test_no_bytes_break_the_decoder(content: bytes) -> None:
    with suppress(LogError):
        assert all(metric.time is None or metric.time >= 0 for metric in decode(content).metrics)


def test_a_missing_message_is_a_gap_and_history_is_none() -> None:
    source = MqttSource("mqtt://127.0.0.1:1/spBv1.0/g/#")
    source._names = {"P": "power"}

    def say(kind: str, sequence: int, stamp: int, historical: bool = False) -> list[object]:
        metric = Metric("P" if kind == "DBIRTH" else None, float(sequence), stamp, 7, historical)
        return list(source._arrivals_of(f"spBv1.0/g/{kind}/e/d", encode(Payload(stamp, (metric,), sequence))))

    say("DBIRTH", 1, 1000)
    assert not notices(say("DDATA", 2, 2000), "degraded")
    lost = say("DDATA", 5, 5000)
    assert "2 messages" in notices(lost, "degraded")[0].text
    assert (notices(lost, "gap")[0].begin, notices(lost, "gap")[0].end) == (2_000_000, 5_000_000)
    late = say("DDATA", 6, 3000, historical=True)
    assert samples(late, "power")[0].time == 3_000_000
    assert notices(say("DDATA", 6, 3000, historical=True), "doubled")


def test_a_password_in_the_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="holds a password"):
        check_address("mqtt://user:secret@host/topic")
