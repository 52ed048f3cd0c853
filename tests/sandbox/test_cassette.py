"""RecordedAnswer calls are answered again without a network, in their order, without secrets, or not at all."""

import json
import os
import stat
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InvalidCassette
from paddock.sandbox.cassette import Cassette, RecordedAnswer, redact_url
from tests.sandbox.web import PATIENCE_S, proxied, say, status, web

HELLO = RecordedAnswer(200, "OK", (("X-A", "b"),), b"hello")


def ask(url, *lines, method="GET", body=b""):
    if body:
        lines = (*lines, f"Content-Length: {len(body)}")
    return "\r\n".join([f"{method} {url} HTTP/1.1", *lines, "", ""]).encode() + body


def recorded(path, *exchanges, mode="record"):
    with Cassette(path, mode) as cassette:
        for url, answer in exchanges:
            assert cassette.add("GET", url, [], b"", answer=answer)


def body_of(answer):
    return answer.partition(b"\r\n\r\n")[2]


def test_a_recorded_run_needs_no_network_later(tmp_path):
    path = tmp_path / "tape.jsonl"
    count = iter(range(100))
    with web(lambda *_: {"body": b"number %d" % next(count), "headers": [("X-A", "b")], "chunked": True}) as server:
        here = f"http://127.0.0.1:{server.port}"
        hosts = f"127.0.0.1:{server.port}"
        with Cassette(path, "record") as tape, proxied(hosts, cassette=tape) as proxy:
            live = [say(proxy, ask(f"{here}/{name}")) for name in "aab"]
            live.append(say(proxy, ask(f"{here}/a", method="POST", body=b"x")))
            assert proxy.served == 4
        assert [body_of(one) for one in live] == [b"number 0", b"number 1", b"number 2", b"number 3"]
    # The server is gone, and asked in another order each request still finds its own answers.
    with Cassette(path, "replay") as tape, proxied(hosts, cassette=tape) as proxy:
        again = [
            say(proxy, ask(f"{here}/b")),
            say(proxy, ask(f"{here}/a", method="POST", body=b"x")),
            say(proxy, ask(f"{here}/a")),
            say(proxy, ask(f"{here}/a")),
        ]
        assert [live[2], live[3], live[0], live[1]] == again
        assert proxy.served == 4
        more = say(proxy, ask(f"{here}/a"))
        assert status(more) == 502 and b"not on the cassette, or not this often" in more
        assert (proxy.refused, proxy.log[-1].verdict) == (1, "unrecorded")


def test_replay_asks_no_resolver_and_opens_no_connection(tmp_path, monkeypatch):
    path = tmp_path / "tape.jsonl"
    recorded(path, ("https://api.example/", HELLO))

    def forbidden(*args, **options):
        raise AssertionError("the network was used")

    monkeypatch.setattr("paddock.sandbox.proxy.Destinations.addresses", forbidden)
    monkeypatch.setattr("paddock.sandbox.proxy.connect", forbidden)
    with Cassette(path, "replay") as tape, proxied("api.example:443", cassette=tape) as proxy:
        assert body_of(say(proxy, ask("https://api.example/"))) == b"hello"
        assert status(say(proxy, ask("https://api.example/other"))) == 502


def test_the_policy_holds_in_replay_too(tmp_path):
    path = tmp_path / "tape.jsonl"
    recorded(path, ("https://api.example/", HELLO))
    with Cassette(path, "replay") as tape, proxied("other.example:443", cassette=tape) as proxy:
        assert status(say(proxy, ask("https://api.example/"))) == 403


def test_auto_replays_what_is_there_and_records_the_rest(tmp_path):
    path = tmp_path / "tape.jsonl"
    count = iter(range(100))
    with web(lambda *_: {"body": b"%d" % next(count)}) as server:
        here = f"http://127.0.0.1:{server.port}"
        for expected in ([b"0"], [b"0", b"1"], [b"0", b"1"]):
            with Cassette(path) as tape, proxied(f"127.0.0.1:{server.port}", cassette=tape) as proxy:
                assert [body_of(say(proxy, ask(here + "/"))) for _ in expected] == expected
        assert len(server.seen) == 2


def test_record_begins_anew(tmp_path):
    path = tmp_path / "tape.jsonl"
    recorded(path, ("http://a/", HELLO))
    recorded(path)
    assert Cassette(path, "replay").take("GET", "http://a/", [], b"") is None


def test_a_tunnel_is_refused_with_the_way_out(tmp_path):
    with Cassette(tmp_path / "tape", "record") as tape, proxied("api.example:443", cassette=tape) as proxy:
        answer = say(proxy, b"CONNECT api.example:443 HTTP/1.1\r\n\r\n")
        assert status(answer) == 405 and b"paddock.sandbox.fetch" in answer
        assert proxy.log[0].verdict == "refused"


def test_binary_and_empty_answers_come_back_as_they_were(tmp_path):
    path = tmp_path / "tape.jsonl"

    def answer(method, path, body):
        if path == "/empty":
            return {"status": 204, "body": b""}
        return {"body": bytes(range(256))}

    with web(answer) as server:
        here, hosts = f"http://127.0.0.1:{server.port}", f"127.0.0.1:{server.port}"
        asked = [ask(f"{here}/"), ask(f"{here}/empty"), ask(f"{here}/", method="HEAD")]
        with Cassette(path, "record") as tape, proxied(hosts, cassette=tape) as proxy:
            live = [say(proxy, one) for one in asked]
    with Cassette(path, "replay") as tape, proxied(hosts, cassette=tape) as proxy:
        assert [say(proxy, one) for one in asked] == live
    assert body_of(live[0]) == bytes(range(256)) and status(live[1]) == 204
    assert b"Content-Length: 256" in live[2] and body_of(live[2]) == b""


def test_secrets_are_never_written(tmp_path):
    path = tmp_path / "tape.jsonl"
    secrets = [f"s3cret-{number}" for number in range(9)]
    headers = [
        ("Set-Cookie", secrets[0]),
        ("X-Auth-Token", secrets[1]),
        ("Location", f"/next?access_token={secrets[2]}&page=2"),
    ]
    with web(lambda *_: {"headers": headers}) as server:
        here = f"http://127.0.0.1:{server.port}"
        request = ask(
            f"{here}/?api_key={secrets[3]}&page=1",
            f"Authorization: Bearer {secrets[4]}",
            f"Cookie: {secrets[5]}",
            f"X-Api-Key: {secrets[6]}",
            f"Proxy-Authorization: Basic {secrets[7]}",
        )
        with Cassette(path, "record") as tape, proxied(f"127.0.0.1:{server.port}", cassette=tape) as proxy:
            answer = say(proxy, request)
            assert status(answer) == 200 and secrets[0].encode() in answer  # the run itself needs its cookie
        assert ("Authorization", f"Bearer {secrets[4]}") in server.seen[0][2]
    written = path.read_text()
    assert [one for one in secrets if one in written] == []
    assert "/?api_key=redacted&page=1" in written and "/next?access_token=redacted&page=2" in written
    # Whoever replays has no secret, or another.
    with Cassette(path, "replay") as tape, proxied(f"127.0.0.1:{server.port}", cassette=tape) as proxy:
        assert status(say(proxy, ask(f"{here}/?api_key=none&page=1"))) == 200


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a/?key=x&q=monkey", "https://a/?key=redacted&q=monkey"),
        (
            "https://a/?q=1&X-Amz-Signature=x&X-Amz-Credential=y",
            "https://a/?q=1&X-Amz-Signature=redacted&X-Amz-Credential=redacted",
        ),
        ("https://a/?PASSWORD=x;token=y", "https://a/?PASSWORD=redacted;token=redacted"),
        ("https://a/token=x?q=key", "https://a/token=x?q=key"),
        ("https://a/?client_secret=", "https://a/?client_secret=redacted"),
    ],
)
def test_secrets_in_urls_are_redacted(url, expected):
    assert redact_url(url) == expected == redact_url(expected)


def test_what_matters_tells_requests_apart(tmp_path):
    path = tmp_path / "tape.jsonl"
    json_type, text_type = [("Accept", "application/json")], [("accept", "text/plain")]
    with Cassette(path, "record") as tape:
        tape.add("GET", "http://a/", json_type, b"", answer=HELLO)
    for method, url, headers, body, found in [
        ("GET", "http://a/", json_type, b"", True),
        ("GET", "http://a/", [("ACCEPT", "application/json"), ("User-Agent", "x")], b"", True),
        ("GET", "http://a/", text_type, b"", False),
        ("GET", "http://a/", json_type, b"x", False),
        ("GET", "http://a/?b", json_type, b"", False),
        ("POST", "http://a/", json_type, b"", False),
    ]:
        assert (Cassette(path, "replay").take(method, url, headers, body) is not None) == found


def test_a_crash_leaves_a_file_that_can_be_read_and_continued(tmp_path):
    path = tmp_path / "tape.jsonl"
    recorded(path, ("http://a/", HELLO))
    whole = path.read_bytes()
    recorded(path, ("http://b/", HELLO), mode="auto")
    longer = path.read_bytes()
    for cut in range(len(whole), len(longer)):
        path.write_bytes(longer[:cut])
        assert Cassette(path, "replay").take("GET", "http://a/", [], b"") == HELLO
    recorded(path, ("http://b/", HELLO), mode="auto")
    assert path.read_bytes() == longer


@pytest.mark.process
def test_a_recorder_that_is_killed_loses_nothing_that_was_answered(tmp_path):
    path = tmp_path / "tape.jsonl"
    code = (
        "import os, signal, sys; from paddock.sandbox.cassette import Cassette, RecordedAnswer\n"
        "tape = Cassette(sys.argv[1], 'record')\n"
        "answer = RecordedAnswer(200, '', (), b'x' * 5000)\n"
        "for n in range(50): tape.add('GET', f'http://a/{n}', [], b'', answer=answer)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=PATIENCE_S)
    tape = Cassette(path, "replay")
    assert all(tape.take("GET", f"http://a/{number}", [], b"") for number in range(50))


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[1:],
        lambda lines: [b"{}", *lines[1:]],
        lambda lines: [b'{"paddock cassette": 2}', *lines[1:]],
        lambda lines: [lines[0], lines[2], lines[1]],
        lambda lines: [lines[0], lines[2]],
        lambda lines: [lines[0], lines[1], lines[1], lines[2]],
        lambda lines: [lines[0], lines[1].replace(b"hello", b"hullo"), lines[2]],
        lambda lines: [lines[0], lines[1].replace(b'"status": 200', b'"status": 201'), lines[2]],
        lambda lines: [lines[0], lines[1].replace(b"http://a/", b"http://z/"), lines[2]],
        lambda lines: [*lines, b"not json"],
        lambda lines: [*lines, b"[]"],
        lambda lines: [*lines, b"[" * 100_000],
        lambda lines: [*lines, b""],
        lambda lines: [*lines, b"\xff\xfe"],
    ],
)
def test_a_file_that_was_changed_is_an_error_that_names_the_line(tmp_path, change):
    path = tmp_path / "tape.jsonl"
    recorded(path, ("http://a/", HELLO), ("http://b/", HELLO))
    lines = path.read_bytes().splitlines()
    changed = b"\n".join(change(lines)) + b"\n"
    path.write_bytes(changed)
    for mode in ("replay", "auto"):
        with pytest.raises(InvalidCassette, match=r"tape.jsonl: line \d"):
            Cassette(path, mode)
    assert path.read_bytes() == changed  # and it was left as it is


def forged(path, response, request=None):
    """A file whose chain is right: it is no signature."""
    from paddock.sandbox.cassette import FORMAT, _extend_chain

    entry = {"request": request or {"method": "GET", "url": "http://a/", "digest": ""}, "response": response}
    lines = [FORMAT, {**entry, "chain": _extend_chain("", entry)}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


GOOD = {"status": 200, "reason": "OK", "headers": [["A", "b"]], "text": "hello"}


@pytest.mark.parametrize(
    "response",
    [
        {**GOOD, "status": 99},
        {**GOOD, "status": 101},
        {**GOOD, "status": True},
        {**GOOD, "status": "200"},
        {**GOOD, "reason": "OK\r\nX: y"},
        {**GOOD, "headers": [["A", "b\r\nSet-Cookie: c"]]},
        {**GOOD, "headers": [["A: b\r\nC", "d"]]},
        {**GOOD, "headers": [["A", 1]]},
        {**GOOD, "headers": [["A"]]},
        {**GOOD, "headers": {"A": "b"}},
        {**GOOD, "headers": [["Transfer-Encoding", "chunked"]]},
        {**GOOD, "headers": [["content-length", "3"]]},
        {**GOOD, "text": 5},
        {**GOOD, "text": "\ud800"},
        {**GOOD, "base64": ""},
        {**{name: GOOD[name] for name in ("status", "reason", "headers")}, "base64": "###"},
        {},
        [],
        None,
    ],
)
def test_a_forged_answer_can_not_write_a_head(tmp_path, response):
    forged(tmp_path / "tape", response)
    with pytest.raises(InvalidCassette, match="line 2: "):
        Cassette(tmp_path / "tape", "replay")


def test_the_forger_of_this_test_makes_good_files_too(tmp_path):
    forged(tmp_path / "tape", GOOD)
    Cassette(tmp_path / "tape", "replay")


def test_what_can_not_be_opened_is_said(tmp_path):
    with pytest.raises(InvalidCassette, match='Record it first: mode="record"'):
        Cassette(tmp_path / "none", "replay")
    with pytest.raises(InvalidCassette, match="can't be opened"):
        Cassette(tmp_path / "no folder" / "tape", "record")
    with pytest.raises(InvalidCassette, match="expected one of record, replay, auto"):
        Cassette(tmp_path / "tape", "rewind")
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidCassette, match="not a cassette of this version|not a JSON object"):
        Cassette(tmp_path / "empty", "replay")
    Cassette(tmp_path / "empty", "auto").close()


def test_two_recorders_of_one_file_do_not_mix(tmp_path):
    with Cassette(tmp_path / "tape", "record") as first:
        for mode in ("record", "auto"):
            with pytest.raises(InvalidCassette, match="share one Cassette"):
                Cassette(tmp_path / "tape", mode)
        assert first.add("GET", "http://a/", [], b"", answer=HELLO)
    assert Cassette(tmp_path / "tape", "replay").take("GET", "http://a/", [], b"") == HELLO


def test_a_full_cassette_refuses_instead_of_answering_what_no_replay_could(tmp_path):
    path = tmp_path / "tape.jsonl"
    with web(lambda *_: {"body": b"x" * 1000}) as server:
        here = f"http://127.0.0.1:{server.port}"
        tape = Cassette(path, "record", max_bytes=2000)
        with tape, proxied(f"127.0.0.1:{server.port}", cassette=tape) as proxy:
            assert status(say(proxy, ask(here + "/"))) == 200
            answer = say(proxy, ask(here + "/"))
            assert status(answer) == 502 and b"could not be recorded" in answer
    replay = Cassette(path, "replay", max_bytes=2000)
    assert replay.take("GET", f"{here}/", [], b"") and not replay.take("GET", f"{here}/", [], b"")
    with pytest.raises(InvalidCassette, match="larger than max_bytes=100"):
        Cassette(path, "replay", max_bytes=100)


def test_a_write_that_fails_half_way_leaves_no_half_line(tmp_path, monkeypatch):
    path = tmp_path / "tape.jsonl"
    with Cassette(path, "record") as tape:
        assert tape.add("GET", "http://a/", [], b"", answer=HELLO)
        before = path.read_bytes()
        plain = os.write
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda fd, data: plain(fd, data[:10]))
            assert not tape.add("GET", "http://b/", [], b"", answer=HELLO)
        assert path.read_bytes() == before
        assert tape.add("GET", "http://c/", [], b"", answer=HELLO)
    assert Cassette(path, "replay").take("GET", "http://c/", [], b"") == HELLO


def test_only_the_owner_may_read_it(tmp_path):
    recorded(tmp_path / "tape")
    assert stat.S_IMODE((tmp_path / "tape").stat().st_mode) == 0o600


def test_closed_twice_it_records_no_more_and_keeps_no_descriptor(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    tape = Cassette(tmp_path / "tape", "record")
    tape.close()
    tape.close()
    assert not tape.add("GET", "http://a/", [], b"", answer=HELLO)
    (tmp_path / "bad").write_text("x\n")
    with pytest.raises(InvalidCassette):
        Cassette(tmp_path / "bad", "auto")
    assert len(os.listdir("/proc/self/fd")) == before


def test_threads_that_record_at_once_write_whole_lines(tmp_path):
    with Cassette(tmp_path / "tape", "record") as tape:
        threads = [
            threading.Thread(
                target=lambda name=name: [
                    tape.add("GET", f"http://{name}/", [], b"", answer=RecordedAnswer(200, "", (), b"%d" % number))
                    for number in range(50)
                ]
            )
            for name in "abcd"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    replay = Cassette(tmp_path / "tape", "replay")
    for name in "abcd":
        bodies = [replay.take("GET", f"http://{name}/", [], b"").body for _ in range(50)]
        assert bodies == [b"%d" % number for number in range(50)]


words = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20).map(str.strip)
names = st.from_regex(r"X-[A-Z]{1,8}", fullmatch=True).filter(lambda name: "KEY" not in name)


@given(
    status=st.integers(200, 599),
    reason=words,
    headers=st.lists(st.tuples(names, words)).map(tuple),
    body=st.binary() | st.text().map(str.encode),
)
def test_an_answer_comes_back_as_it_was(tmp_path_factory, status, reason, headers, body):
    path = tmp_path_factory.mktemp("tape") / "tape"
    answer = RecordedAnswer(status, reason, headers, body)
    recorded(path, ("http://a/", answer))
    found = Cassette(path, "replay").take("GET", "http://a/", [], b"")
    kept = tuple((name, value) for name, value in found.headers if value != "redacted")
    assert (found.status, found.reason, found.body) == (status, reason, body) and set(kept) <= set(headers)
