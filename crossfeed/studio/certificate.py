"""A certificate is tried out before anybody connects: key and certificate belong together, and neither has expired."""

import ssl
from pathlib import Path

from crossfeed.errors import ConfigError

_STEPS = 20  # of a handshake with oneself; TLS 1.3 needs three


def check_certificate(certificate: Path, key: Path) -> None:
    """Shake hands with oneself in memory; an expired certificate or a foreign key fails here and not in a browser."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        server.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"The certificate {certificate} with the key {key} cannot be used: {error}.",
            expected="two PEM files that belong together, the key without a password",
        ) from error
    client = ssl.create_default_context(cafile=str(certificate))
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_side=False, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_STEPS):
        waiting = 0
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting += 1
            except ssl.SSLCertVerificationError as error:
                raise ConfigError(
                    f"Browsers would refuse the certificate {certificate}: {error.verify_message}.",
                    expected="a certificate that is valid today",
                    remedy="Renew it.",
                ) from error
        if not waiting:
            return
