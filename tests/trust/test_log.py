"""The log: lines are only added, and one that was changed, taken out or put in is named."""

import json
import os
import subprocess
import sys

import pytest

import paddock
from paddock.errors import InvalidJournal, StorageFull
from paddock.trust import log
from paddock.trust.log import add_to_log, log_path, note, read_log


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def fill(count=5):
    for number in range(count):
        add_to_log("override", id=f"me/Maze-v{number}", why="a\n\x1b[31mtest")
    return log_path().read_bytes().splitlines(keepends=True)


def test_lines_follow_one_another_and_only_their_owner_may_read_them():
    fill()
    entries = list(read_log())
    assert [entry.number for entry in entries] == [1, 2, 3, 4, 5]
    assert entries[2].facts == {"id": "me/Maze-v2", "why": "a\n\x1b[31mtest"}
    assert log_path().stat().st_mode & 0o777 == 0o600
    previous = [json.loads(line)["previous"] for line in log_path().read_bytes().splitlines()]
    assert previous == ["0" * 64, *(entry.digest for entry in entries[:-1])]


CHANGES = {
    "changed": (lambda lines: [lines[0], lines[1].replace(b"Maze-v1", b"Maze-v7"), *lines[2:]], 3),
    "taken out": (lambda lines: [*lines[:1], *lines[2:]], 2),
    "first taken out": (lambda lines: lines[1:], 1),
    "put in": (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
    "swapped": (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 2),
    "spaced": (lambda lines: [lines[0].replace(b":", b": ", 1), *lines[1:]], 1),
    "not an entry": (lambda lines: [*lines[:3], b"{}\n", *lines[3:]], 4),
    "binary": (lambda lines: [*lines[:3], b"\xff\n", *lines[3:]], 4),
    "endless": (lambda lines: [*lines[:3], b"x" * (1 << 20)], 4),
}


@pytest.mark.parametrize(("change", "line"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_noticed_and_its_line_named(change, line):
    log_path().write_bytes(b"".join(change(fill())))
    with pytest.raises(InvalidJournal, match=f"line {line} "):
        list(read_log())


def test_every_flip_of_a_bit_before_the_last_line_is_noticed():
    *lines, last = fill(3)
    whole = b"".join(lines)
    for at in range(len(whole)):
        for bit in range(8):
            broken = bytearray(whole)
            broken[at] ^= 1 << bit
            log_path().write_bytes(bytes(broken) + last)
            with pytest.raises(InvalidJournal):
                list(read_log())


def test_a_line_that_broke_off_is_dropped_and_the_next_one_takes_its_place():
    lines = fill(3)
    for kept in (1, len(lines[2]) // 2, len(lines[2]) - 1):
        log_path().write_bytes(b"".join(lines[:2]) + lines[2][:kept])
        assert len(list(read_log())) == 2
        add_to_log("override", id="next")
        assert [entry.facts["id"] for entry in read_log()][2:] == ["next"]


def test_a_full_disk_leaves_the_log_as_it_was(monkeypatch):
    before = b"".join(fill(2))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log.os, "fsync", full)
    with pytest.raises(StorageFull, match="Nothing was changed"):
        add_to_log("override", id="x")
    assert log_path().read_bytes() == before


def test_lines_are_taken_back_when_what_they_say_was_not_done(monkeypatch):
    before = b"".join(fill(2))
    lines = ("install", {"package": "acme/maze@1"}), ("grant", {"package": "acme/maze"})
    file = log_path().with_name("packages.json")

    def full(*_arguments):
        raise OSError("full")

    real = log.replace_file
    with monkeypatch.context() as patch:
        patch.setattr(log, "replace_file", lambda path, data: full() if path == file else real(path, data))
        with pytest.raises(OSError, match="full"):
            log.write_logged(*lines, path=file, data=b"{}")
    assert log_path().read_bytes() == before and not file.exists()
    log.write_logged(*lines, path=file, data=b"{}")
    assert [entry.event for entry in read_log()][2:] == ["install", "grant"]
    assert file.read_bytes() == b"{}"


KILLED = """
import os, sys
from paddock.trust import log
steps = iter(range(1000))
def step(real):
    def dying(*arguments, **options):
        if next(steps) == int(sys.argv[1]):
            os.kill(os.getpid(), 9)
        return real(*arguments, **options)
    return dying
for name in ("fsync", "replace", "rename", "unlink", "ftruncate", "chmod", "mkdir"):
    setattr(os, name, step(getattr(os, name)))
log.write_logged(("withdraw", {"package": "a/b"}), ("grant", {}), path=log.log_path().with_name("x.json"), data=b"new")
print("done")
"""


@pytest.mark.process
def test_a_process_killed_at_any_step_leaves_both_the_lines_and_the_file_or_neither(home):
    file = log_path().with_name("x.json")
    for nth in range(100):
        fill(2)
        file.write_bytes(b"old")
        done = subprocess.run([sys.executable, "-c", KILLED, str(nth)], env=os.environ, capture_output=True, text=True)
        events = [entry.event for entry in read_log()]
        assert (file.read_bytes(), events[2:]) in [(b"old", []), (b"new", ["withdraw", "grant"])], nth
        add_to_log("override", id="next")
        assert sorted(path.name for path in home.iterdir()) == ["log.jsonl", "log.lock", "x.json"], nth
        if done.stdout:
            break
        log_path().unlink()
    assert nth >= 5, done.stderr


def test_a_note_of_unfinished_work_that_is_damaged_is_named():
    fill(2)
    log_path().with_suffix(".unfinished").write_text("{}")
    with pytest.raises(InvalidJournal, match="unfinished is damaged"):
        list(read_log())


@pytest.mark.process
def test_several_programs_may_write_at_once():
    code = "from paddock.trust.log import add_to_log\nfor n in range(40):\n    add_to_log('override', id=str(n))"
    programs = [subprocess.Popen([sys.executable, "-c", code], env=os.environ) for _ in range(3)]
    assert [program.wait(60) for program in programs] == [0, 0, 0]
    assert len(list(read_log())) == 120


def test_what_is_known_already_is_not_noted_again(monkeypatch):
    for digest in ("a", "a", "b", "b", "a"):
        monkeypatch.setattr(log, "_NOTED", {})  # as in another program
        note("registration", "me/Maze-v0", digest=digest)
    assert [entry.facts["digest"] for entry in read_log()] == ["a", "b", "a"]


def test_a_log_that_can_not_be_written_stops_nothing(home, fresh_registry):
    home.write_text("not a folder")
    paddock.register("me/Unlogged-v0", "tests.toys:Counter")
    paddock.make("me/Unlogged-v0").close()


def test_ids_that_are_made_and_ids_that_are_given_other_code_are_in_it(fresh_registry, tmp_path, monkeypatch):
    code = "from tests.toys import Counter as {}\n"
    (tmp_path / "logged_env.py").write_text(code.format("First"))
    monkeypatch.syspath_prepend(tmp_path)
    paddock.register("me/Logged-v0", "logged_env:First")
    paddock.make("me/Logged-v0").close()
    paddock.make("CartPole-v1").close()
    paddock.register("me/Logged-v0", "tests.toys:Counter", replace=True)
    paddock.make("me/Logged-v0").close()
    first, override, second = read_log()
    assert (first.event, first.facts["id"], first.facts["module"]) == ("registration", "me/Logged-v0", "logged_env")
    assert first.facts["file"] == str(tmp_path / "logged_env.py") and len(first.facts["digest"]) == 64
    assert (override.event, override.facts["before"], override.facts["now"]) == (
        "override",
        "logged_env:First",
        "tests.toys:Counter",
    )
    assert second.facts["module"] == "tests.toys"
