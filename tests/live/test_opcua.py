"""OPC UA against a real server: discovery, subscriptions, outages, dead nodes, certificates."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("asyncua", reason="the extra 'live' is not installed")

from crossfeed.errors import ConfigError, LogError
from crossfeed.live.opcua import OpcUaSource
from crossfeed.live.open_source import Credentials, make_certificate, read_credentials, read_security
from crossfeed.live.source import Sample
from crossfeed.schema import canonical
from crossfeed.sim.servers.opcua_server import APPLICATION_URI, OpcUaServer
from crossfeed.sim.servers.serve import SimulatedFeed
from tests.live.conftest import LIMIT_S, within
from tests.live.servers import free_port, hear, notices, samples, staged


@pytest.fixture(scope="module")
def feed() -> SimulatedFeed:
    return SimulatedFeed()


def test_a_server_is_discovered_heard_lost_and_found_again(feed: SimulatedFeed, tmp_path: Path) -> None:
    async def work() -> None:
        server = OpcUaServer(feed, free_port())
        async with staged(feed, server) as stage:
            found = await OpcUaSource(server.address).propose()
            channels = {column.channel: column for column in found.mapping.columns}
            assert set(channels) == set(feed.channels)
            assert channels["spindle_power"].unit == "kW"
            assert all(column.native for column in channels.values())
            assert found.mapping.machine == feed.name
            assert all(found.mapping.states.model_dump()[name] for name in ("program", "line", "feed_override"))

            mapping = tmp_path / "mapping.yaml"
            node = str(channels["x_torque"].native)
            mapping.write_text(found.to_yaml().replace(node, "ns=2;s=nobody"), encoding="utf-8")
            source = OpcUaSource(server.address, mapping)
            assert (await source.open()).change_driven
            arrivals = source.arrivals()

            first = await hear(arrivals, lambda found: len(samples(found, "spindle_current")) >= 20)
            (unknown,) = notices(first, "degraded")
            assert unknown.channel == "x_torque"
            assert not samples(first, "x_torque")
            told = {(stamp, step.values["spindle_current"]) for stamp, step in stage.told}
            assert {(one.time, one.value) for one in samples(first, "spindle_current")[1:]} <= told

            stage.missing = frozenset({"spindle_current"})
            dead = await hear(arrivals, lambda found: len(samples(found, "spindle_power")) >= 20)
            assert samples(dead, "spindle_current")[-1].value is None
            assert notices(dead, "degraded")[0].channel == "spindle_current"
            assert all(one.value is not None for one in samples(dead, "spindle_power"))
            stage.missing = frozenset()

            await stage.vanish()
            last = stage.told[-1][0]
            lost = await hear(arrivals, lambda found: notices(found, "degraded"))
            assert "lost" in notices(lost, "degraded")[0].text
            await stage.return_()
            back = await hear(arrivals, lambda found: len(samples(found, "spindle_current")) >= 10)
            (gap,) = notices(back, "gap")
            assert gap.begin <= last < gap.end
            assert notices(back, "reconnect")
            assert not [one for one in back if isinstance(one, Sample) and gap.begin < one.time < gap.end]
            await source.close()

    within(3 * LIMIT_S, work)


def test_a_mistake_of_ours_looped_for_ever_as_a_lost_connection(
    feed: SimulatedFeed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise KeyError("a mistake of ours")

    async def work() -> None:
        server = OpcUaServer(feed, free_port())
        async with staged(feed, server):
            source = OpcUaSource(server.address)
            await source.open()
            monkeypatch.setattr(OpcUaSource, "_subscribe", broken)
            with pytest.raises(KeyError, match="a mistake of ours"):
                await anext(source.arrivals())
            monkeypatch.undo()
            mapping = tmp_path / "mapping.yaml"
            written = (await source.propose()).to_yaml()
            node = next(column.native for column in (await source.propose()).mapping.columns)
            mapping.write_text(written.replace(str(node), "the torque of x"), encoding="utf-8")
            with pytest.raises(ConfigError, match="names a node that OPC UA cannot"):
                await anext(OpcUaSource(server.address, mapping).arrivals())

    within(LIMIT_S, work)


def test_a_secured_server_is_heard_and_a_stranger_is_not(feed: SimulatedFeed, tmp_path: Path) -> None:
    async def work() -> None:
        theirs, their_key = await make_certificate(tmp_path / "server", APPLICATION_URI, server=True)
        stranger, _ = await make_certificate(tmp_path / "stranger", APPLICATION_URI, server=True)
        ours, our_key = await make_certificate(tmp_path / "ours")
        for name, certificate in (("trusted", theirs), ("other", stranger)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "server.der").write_bytes(certificate.read_bytes())
        server = OpcUaServer(feed, free_port(), theirs, their_key, {"operator": "secret"})
        login, wrong = Credentials("operator", "secret"), Credentials("operator", "wrong")
        async with staged(feed, server):
            for policy in ("Basic256Sha256", "Aes256Sha256RsaPss"):
                trusted = read_security(policy, ours, our_key, tmp_path / "trusted")
                source = OpcUaSource(server.address, security=trusted, credentials=login)
                await source.open()
                assert await hear(source.arrivals(), lambda found: len(found) > 20)
                await source.close()
                strange = read_security(policy, ours, our_key, tmp_path / "other")
                with pytest.raises(LogError, match="do not trust each other"):
                    await OpcUaSource(server.address, security=strange, credentials=login).open()
            with pytest.raises(LogError, match="do not trust each other"):
                await OpcUaSource(server.address, security=trusted, credentials=wrong).open()
            with pytest.raises(LogError):
                await OpcUaSource(server.address).open()

    within(3 * LIMIT_S, work)


async def _valid_for(days: int, folder: Path) -> tuple[Path, Path]:
    """A server's certificate and its key; with no days its time is over."""
    from asyncua.crypto import cert_gen
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import ExtendedKeyUsageOID

    folder.mkdir()
    key = cert_gen.generate_private_key()
    made = cert_gen.generate_self_signed_app_certificate(
        key, APPLICATION_URI, {"commonName": "old"}, [x509.UniformResourceIdentifier(APPLICATION_URI)],
        [ExtendedKeyUsageOID.SERVER_AUTH], days=days,
    )  # fmt: skip
    certificate, private = folder / "old.der", folder / "old.pem"
    certificate.write_bytes(made.public_bytes(Encoding.DER))
    private.write_bytes(cert_gen.dump_private_key_as_pem(key))
    return certificate, private


def test_a_server_whose_certificate_has_expired_is_refused_though_it_is_in_the_trust_list(
    feed: SimulatedFeed, tmp_path: Path
) -> None:
    async def work() -> None:
        ours, our_key = await make_certificate(tmp_path / "ours")
        for days in (30, 0):
            theirs, their_key = await _valid_for(days, tmp_path / f"server{days}")
            trust = tmp_path / f"trusted{days}"
            trust.mkdir()
            (trust / "server.der").write_bytes(theirs.read_bytes())
            server = OpcUaServer(feed, free_port(), theirs, their_key, {"operator": "secret"})
            security = read_security("Basic256Sha256", ours, our_key, trust)
            async with staged(feed, server):
                login = Credentials("operator", "secret")
                source = OpcUaSource(server.address, security=security, credentials=login)
                if days:
                    await source.open()
                else:
                    with pytest.raises(LogError, match="do not trust each other"):
                        await source.open()

    within(3 * LIMIT_S, work)


def test_values_that_the_server_lost_were_not_noticed() -> None:
    from asyncua import ua

    source, now = OpcUaSource("opc.tcp://127.0.0.1:9"), datetime(2026, 1, 1, 12, 0, 0)
    for seconds, status in ((0, 0), (1, 0), (31, 0x0480), (32, 0)):
        told = ua.DataValue(ua.Variant(2.0), ua.StatusCode(status), now + timedelta(seconds=seconds))
        source.tell("spindle_power", told)
    found = [source._arrivals.get_nowait() for _ in range(source._arrivals.qsize())]
    (gap,) = notices(found, "gap")
    assert gap.end - gap.begin == 30_000_000
    assert gap.end == samples(found, "spindle_power")[2].time
    assert "spindle_power" in gap.text


def test_a_value_that_has_not_changed_for_long_is_in_force_from_the_start() -> None:
    from asyncua import ua

    source = OpcUaSource("opc.tcp://127.0.0.1:9")
    source._awaited = {"spindle_speed", "spindle_power"}
    now = datetime(2026, 1, 1, 12, 0, 0)
    old = ua.DataValue(ua.Variant(3000.0), SourceTimestamp=now - timedelta(minutes=20))
    source.tell("spindle_speed", old)
    source.tell("spindle_power", ua.DataValue(ua.Variant(2.0), SourceTimestamp=now))
    source.tell("spindle_power", ua.DataValue(ua.Variant(3.0), SourceTimestamp=now + timedelta(seconds=1)))
    found = [source._arrivals.get_nowait() for _ in range(3)]
    begin = samples(found, "spindle_power")[0].time
    assert [(one.value, one.time) for one in samples(found, "spindle_speed")] == [(3000.0, begin)]
    assert samples(found, "spindle_power")[1].time == begin + 1_000_000


def test_a_password_never_travels_in_the_clear(feed: SimulatedFeed) -> None:
    async def work() -> None:
        with pytest.raises(ConfigError, match="in the clear"):
            await OpcUaSource("opc.tcp://127.0.0.1:9", credentials=Credentials("a", "b")).open()

    assert feed.sensors
    within(LIMIT_S, work)


def test_credentials_that_others_may_read_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "login.yaml"
    file.write_text("user: a\npassword: b\n", encoding="utf-8")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="Others may read"):
        read_credentials(file)
    file.chmod(0o600)
    found = read_credentials(file)
    assert found == Credentials("a", "b")
    assert "b'" not in repr(found)


def test_a_server_that_is_not_there_is_an_error_with_its_address() -> None:
    async def work() -> None:
        with pytest.raises(LogError, match=r"no OPC UA server at opc\.tcp"):
            await OpcUaSource(f"opc.tcp://127.0.0.1:{free_port()}").open()

    within(LIMIT_S, work)


def test_the_simulated_machine_speaks_canonical_channels(feed: SimulatedFeed) -> None:
    assert set(feed.channels) <= {channel.name for channel in canonical().channels}
