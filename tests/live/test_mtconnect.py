"""MTConnect over real HTTP: streams, heartbeats, replays, a buffer that is too short, an agent that restarts."""

import asyncio

import pytest

from crossfeed.errors import LogError
from crossfeed.live import mtconnect
from crossfeed.live.mtconnect import MtconnectSource
from crossfeed.live.source import ALIVE, Mark, Sample
from crossfeed.logs.declaration import PROGRAM
from crossfeed.sim.servers.mtconnect_agent import MtconnectAgent
from crossfeed.sim.servers.serve import SimulatedFeed
from tests.live.conftest import LIMIT_S, within
from tests.live.servers import free_port, hear, notices, samples, staged


@pytest.fixture(scope="module")
def feed() -> SimulatedFeed:
    return SimulatedFeed()


def test_what_is_heard_is_what_the_machine_told_and_a_lost_connection_costs_nothing(feed: SimulatedFeed) -> None:
    async def work() -> None:
        agent = MtconnectAgent(feed, free_port())
        async with staged(feed, agent) as stage:
            source = MtconnectSource(agent.address)
            kind = await source.open()
            assert {column.channel for column in kind.columns} >= {"spindle_power", "spindle_speed", "feed_x"}
            arrivals = source.arrivals()
            first = await hear(arrivals, lambda found: len(samples(found, "spindle_power")) >= 20)
            told = {stamp: step.values["spindle_power"] for stamp, step in stage.told}
            for one in samples(first, "spindle_power")[1:]:
                assert one.value == pytest.approx(1000.0 * told[one.time])
            assert samples(first, PROGRAM)

            await agent.vanish()  # the machine goes on, and the agent keeps what nobody hears
            lost = await hear(arrivals, lambda found: notices(found, "degraded"))
            await agent.return_()
            back = await hear(arrivals, lambda found: len(samples(found, "spindle_power")) >= 20)
            assert notices(back, "reconnect")
            assert not notices(back, "gap")
            heard = [
                one.time for one in (*first, *lost, *back) if isinstance(one, Sample) and one.channel == "x_current"
            ]
            stamps = [stamp for stamp, _ in stage.told]
            begin = stamps.index(heard[1])
            assert heard[1:] == stamps[begin : begin + len(heard) - 1]

            agent.restart()
            again = await hear(arrivals, lambda found: notices(found, "restart"))
            again = await hear(arrivals, lambda found: len(samples(found, "spindle_power")) >= 5)
            assert len(notices(again, "gap")) <= 1
            assert not notices(again, "restart")

    within(LIMIT_S, work)


def test_a_buffer_that_does_not_reach_back_is_a_gap(feed: SimulatedFeed) -> None:
    async def work() -> None:
        agent = MtconnectAgent(feed, free_port(), buffer=40)
        async with staged(feed, agent) as stage:
            source = MtconnectSource(agent.address)
            await source.open()
            arrivals = source.arrivals()
            await hear(arrivals, lambda found: len(samples(found, "spindle_power")) >= 5)
            await agent.vanish()
            await hear(arrivals, lambda found: notices(found, "degraded"))
            told = len(stage.told)
            while len(stage.told) < told + 20:
                await asyncio.sleep(0.01)
            await agent.return_()
            back = await hear(arrivals, lambda found: notices(found, "gap"))
            assert notices(back, "gap")[0].end > notices(back, "gap")[0].begin

    within(LIMIT_S, work)


def test_a_heartbeat_says_that_everything_is_still_in_force(
    feed: SimulatedFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mtconnect, "_HEARTBEAT_MS", 200)

    async def work() -> None:
        agent = MtconnectAgent(feed, free_port())
        await agent.start()
        await agent.tell(next(feed.steps()), 1_700_000_000_000_000)
        source = MtconnectSource(agent.address)
        await source.open()
        found = await hear(source.arrivals(), lambda found: samples(found, ALIVE))
        assert samples(found, "spindle_power")
        await agent.stop()

    within(LIMIT_S, work)


def test_an_earlier_position_is_taken_up_again(feed: SimulatedFeed) -> None:
    async def work() -> None:
        agent = MtconnectAgent(feed, free_port())
        await agent.start()
        steps = feed.steps()
        for number in range(5):
            await agent.tell(next(steps), 1_700_000_000_000_000 + number * 100_000)
        first = MtconnectSource(agent.address)
        await first.open()
        found = await hear(first.arrivals(), lambda found: isinstance(found[-1], Mark))
        for number in range(5, 9):
            await agent.tell(next(steps), 1_700_000_000_000_000 + number * 100_000)
        second = MtconnectSource(agent.address)
        await second.open()
        mark = found[-1]
        assert isinstance(mark, Mark)
        second.resume(mark.position)
        rest = await hear(second.arrivals(), lambda found: isinstance(found[-1], Mark))
        assert len(samples(rest, "spindle_current")) == 4
        assert not notices(rest, "gap")
        await agent.stop()

    within(LIMIT_S, work)


def test_an_agent_that_is_not_there_is_an_error_with_its_address() -> None:
    async def work() -> None:
        with pytest.raises(LogError, match="no MTConnect agent at http"):
            await MtconnectSource(f"http://127.0.0.1:{free_port()}").open()

    within(LIMIT_S, work)
