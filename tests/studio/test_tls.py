"""TLS of the real server: only with a certificate that holds, and nothing in the clear."""

from collections.abc import Callable
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.studio.service import Service
from tests.studio.conftest import PATIENCE, running
from tests.studio.real_server import httpx

pytest.importorskip("fastapi", reason="needs the extra 'serve'")


def certificate(folder: Path, days: int) -> tuple[Path, Path]:
    """A self-signed certificate for the loopback address that is valid from two days ago for so many days."""
    x509 = pytest.importorskip("cryptography.x509", reason="needs cryptography to make certificates")
    import datetime
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(since)
        .not_valid_after(since + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    pem, private = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    none = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, none))
    return pem, private


def test_tls_is_spoken_and_only_with_a_certificate_that_holds(
    make_service: Callable[..., Service], tmp_path: Path
) -> None:
    import ssl

    from crossfeed.studio.server import check_certificate

    pem, key = certificate(tmp_path / "good", 30)
    old, old_key = certificate(tmp_path / "old", 1)
    check_certificate(pem, key)
    with pytest.raises(ConfigError, match="has expired"):
        check_certificate(old, old_key)
    with pytest.raises(ConfigError, match="cannot be used"):
        check_certificate(pem, old_key)
    with running(make_service(port=0, certificate=pem, key=key)) as server:
        assert server.address.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(pem))
        answer = httpx.get(f"{server.address}/api/model", headers=server.headers, verify=trusted, timeout=PATIENCE)
        assert answer.status_code == 200
        with pytest.raises(httpx.ConnectError):  # a client that does not trust it says nothing, not even its token
            httpx.get(f"{server.address}/api/model", headers=server.headers, timeout=PATIENCE)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{server.port}/healthz", timeout=PATIENCE)
