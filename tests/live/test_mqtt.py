"""MQTT through a real broker: JSON by mapping, Sparkplug B with birth, death and missing messages."""

import pytest

pytest.importorskip("aiomqtt", reason="the extra 'live' is not installed")
pytest.importorskip("amqtt", reason="the extra 'live' is not installed")

from crossfeed.errors import ConfigError
from crossfeed.live.mqtt import Metric, MqttSource, Payload
from crossfeed.live.open_source import check_address
from crossfeed.live.source import Sample
from crossfeed.sim.servers.mqtt_publisher import MqttPublisher, encode
from crossfeed.sim.servers.serve import SimulatedFeed
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
