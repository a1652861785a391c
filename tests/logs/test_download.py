"""Downloads against a local server: whole, interrupted and resumed, changed, forbidden."""

import hashlib
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from crossfeed.errors import LogError
from crossfeed.logs.declaration import Download
from crossfeed.logs.files import RECORD, fetch
from crossfeed.logs.log_formats import log_format_named, log_formats

CONTENT = bytes(range(256)) * 4096


class Server(ThreadingHTTPServer):
    """Serves one file; it can break off after some bytes, ignore ranges, or refuse."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.version = CONTENT, '"one"'
        self.break_after: int | None = None
        self.ranges, self.status = True, 200
        self.requests: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append(wanted)
        if server.status != 200:
            self.send_error(server.status)
            return
        begin = 0
        same = self.headers.get("If-Range", server.version) == server.version
        if wanted and server.ranges and same:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(server.content):
                self.send_error(416)
                return
        body = server.content[begin:]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", server.version)
        self.end_headers()
        self.wfile.write(body if server.break_after is None else body[: server.break_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def kind():
    return replace(log_format_named("thws"), downloads=(Download("data.csv", "https://example.invalid/data.csv"),))


def test_a_file_arrives_whole_and_its_checksum_is_recorded(server, kind, tmp_path) -> None:
    paths = fetch(kind, tmp_path, server.url)
    assert [path.read_bytes() for path in paths] == [CONTENT]
    record = json.loads((tmp_path / RECORD).read_text())["data.csv"]
    assert record == {
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "bytes": len(CONTENT),
        "url": f"{server.url}/data.csv",
    }
    assert sorted(file.name for file in tmp_path.iterdir()) == [RECORD, "data.csv"]


def test_what_is_there_is_not_fetched_again(server, kind, tmp_path) -> None:
    fetch(kind, tmp_path, server.url)
    fetch(kind, tmp_path, server.url)
    assert server.requests == [None]


def test_a_connection_that_breaks_is_taken_up_where_it_broke(server, kind, tmp_path) -> None:
    server.break_after = 400_000
    paths = fetch(kind, tmp_path, server.url, pause=0.0)
    assert paths[0].read_bytes() == CONTENT
    assert server.requests == [None, "bytes=400000-", "bytes=800000-"]


def test_a_download_given_up_goes_on_in_the_next_run(server, kind, tmp_path) -> None:
    server.break_after = 1000
    with pytest.raises(LogError, match="stopped after 5,000 bytes"):
        fetch(kind, tmp_path, server.url, pause=0.0)
    server.break_after = None
    assert fetch(kind, tmp_path, server.url)[0].read_bytes() == CONTENT
    assert server.requests[-1] == "bytes=5000-"


def test_a_file_that_changed_meanwhile_is_fetched_from_the_beginning(server, kind, tmp_path) -> None:
    server.break_after = 1000
    with pytest.raises(LogError):
        fetch(kind, tmp_path, server.url, pause=0.0)
    server.break_after, server.version, server.content = None, '"two"', CONTENT[::-1]
    assert fetch(kind, tmp_path, server.url)[0].read_bytes() == CONTENT[::-1]


def test_a_server_without_ranges_and_an_overlong_partial_begin_anew(server, kind, tmp_path) -> None:
    (tmp_path / "data.csv.partial").write_bytes(b"x" * 10)
    server.ranges = False
    assert fetch(kind, tmp_path, server.url)[0].read_bytes() == CONTENT
    (tmp_path / "data.csv").unlink()
    (tmp_path / "data.csv.partial").write_bytes(b"x" * (len(CONTENT) + 1))
    server.ranges = True
    assert fetch(kind, tmp_path, server.url, pause=0.0)[0].read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused_and_the_file_not_kept(server, kind, tmp_path) -> None:
    known = replace(kind, downloads=(Download("data.csv", "https://example.invalid", "0" * 64),))
    with pytest.raises(LogError, match="checksum"):
        fetch(known, tmp_path, server.url)
    assert not (tmp_path / "data.csv").exists()


def test_a_file_changed_on_disk_is_fetched_again(server, kind, tmp_path) -> None:
    fetch(kind, tmp_path, server.url)
    (tmp_path / "data.csv").write_bytes(b"damaged")
    assert fetch(kind, tmp_path, server.url)[0].read_bytes() == CONTENT


def test_a_refusal_names_the_address_and_the_way_by_hand(server, kind, tmp_path) -> None:
    server.status = 403
    with pytest.raises(LogError, match=r"answers 403(.|\n)*by hand from https://doi"):
        fetch(kind, tmp_path, server.url)


def test_a_server_that_is_not_there(kind, tmp_path) -> None:
    with pytest.raises(LogError, match="stopped after 0 bytes"):
        fetch(kind, tmp_path, "http://127.0.0.1:9", pause=0.0)


def test_a_damaged_record_is_named(server, kind, tmp_path) -> None:
    (tmp_path / RECORD).write_text("{")
    with pytest.raises(LogError, match=r"checksums\.json cannot be read"):
        fetch(kind, tmp_path, server.url)


def test_a_kind_without_files_says_where_to_get_them(tmp_path) -> None:
    with pytest.raises(LogError, match="no files to download"):
        fetch(log_format_named("mtconnect"), tmp_path)


def test_every_kind_states_its_licence_and_citation() -> None:
    kinds = log_formats()
    for kind in kinds.values():
        assert kind.licence
        assert kind.citation
        assert kind.homepage.startswith("https://")
    assert [name for name, kind in kinds.items() if kind.non_commercial] == ["joanneum"]
