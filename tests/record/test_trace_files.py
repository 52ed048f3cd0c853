"""Traces as files: what is written is read, a crash loses no whole line, and a hostile file is refused by its line."""

import hashlib
import json
import os
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import paddock
from paddock.errors import InvalidTrace
from paddock.record.trace import FORMAT, Recorder, TraceReader, TraceWriter
from paddock.record.trace.lines import Limits
from paddock.record.trace.writer import Opening
from paddock.spaces import Box, Dict, Discrete, Text
from tests.toys import Counter
from tests.traces import unchained


class Camera(Counter):
    """As Counter, with a picture in each observation."""

    def __init__(self, goal=3):
        super().__init__(goal)
        self.observation_space = Dict({"image": Box(0, 255, (8, 8), np.uint8), "at": Discrete(100)})

    def _seen(self):
        return {"image": np.full((8, 8), self.count, np.uint8), "at": np.int64(self.count)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {"words": "caf\u00e9 \u2028 \x1b[2J"}

    def step(self, action):
        _, reward, terminated, truncated, info = super().step(action)
        return self._seen(), reward, terminated, truncated, info


def record(path, env=None, seeds=(0, 1), steps=99):
    with TraceWriter(path) as writer, Recorder(Camera() if env is None else env, writer) as recorder:
        for seed in seeds:
            recorder.reset(seed=seed)
            for _ in range(steps):
                if any(recorder.step(1)[2:4]):
                    break
    return path


@pytest.fixture
def path(tmp_path):
    return record(tmp_path / "t.jsonl")


def test_what_was_recorded_is_read(path):
    first, second = TraceReader(path)
    assert (first.number, first.seed, second.number, second.seed) == (0, 0, 1, 1)
    assert first.env == "tests.record.test_trace_files:Camera"
    assert first.info == {"words": "caf\u00e9 \u2028 \x1b[2J"}
    assert [step.reward for step in first.steps] == [1.0, 2.0, 3.0]
    assert first.total_return == 6.0
    assert [(step.terminated, step.truncated) for step in first.steps] == [
        (False, False),
        (False, False),
        (True, False),
    ]
    last = first.steps[-1]
    assert (last.action, last.observation["at"]) == (1, 3)
    assert last.observation["image"].dtype == np.uint8 and (last.observation["image"] == 3).all()
    assert first.ended and first.error is None


def test_lines_are_ascii_and_in_the_documented_form(path):
    text = path.read_bytes()
    assert text.isascii() and b"\x1b" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["type"] for line in lines] == ["header", "reset", "step", "step", "step", "end"] * 2
    header = lines[0]
    assert list(header)[:3] == ["type", "episode", "format"]
    assert (header["format"], header["seed"], header["options"], header["task"]) == (FORMAT, 0, None, None)
    assert header["spaces"].keys() == {"observation", "action"}
    assert lines[6]["spaces"] == 0  # those of episode 0: told once
    offset, dtype, shape, digest = lines[2]["observation"]["image"]["$array"]
    arrays = (path.parent / "t.jsonl.arrays").read_bytes()
    assert (offset, dtype, shape) == (64, "|u1", [8, 8])
    assert hashlib.sha256(arrays[64:128]).hexdigest() == digest
    chain = [hashlib.sha256(b"".join(text.splitlines(keepends=True)[:end])).hexdigest() for end in (5, 11)]
    assert lines[5] == {"type": "end", "episode": 0, "error": None, "return": 6.0, "chain": chain[0]}
    assert lines[11]["chain"] == chain[1]


def test_the_spec_and_its_digest_are_told(tmp_path):
    (episode,) = TraceReader(record(tmp_path / "c.jsonl", paddock.make("CartPole-v1"), seeds=(3,)))
    made = paddock.make("CartPole-v1")
    assert (episode.env, episode.spec) == ("CartPole-v1", made.spec)
    assert episode.digest == paddock.record.environment_digest(made.spec)
    assert not (tmp_path / "c.jsonl.arrays").exists()  # four numbers stand in the line


def test_an_error_of_the_environment_ends_the_episode_without_a_return(tmp_path):
    class Faulty(Camera):
        def step(self, action):
            if self.count == 1:
                raise ValueError("no more")
            return super().step(action)

    with Recorder(Faulty(), tmp_path / "f.jsonl") as env:
        env.reset(seed=0)
        env.step(1)
        with pytest.raises(ValueError, match="no more"):
            env.step(1)
        env.reset(seed=1)
    failed, left = TraceReader(tmp_path / "f.jsonl")
    assert (failed.error.code, failed.error.message) == ("ENV_ERROR", "ValueError: no more")
    assert (failed.total_return, len(failed.steps)) == (None, 1)
    assert (left.total_return, len(left.steps), left.ended) == (0.0, 0, True)


def test_a_reset_that_fails_is_told(tmp_path):
    class Faulty(Camera):
        def reset(self, *, seed=None, options=None):
            raise paddock.errors.EpisodeFailed("not today")

    with Recorder(Faulty(), tmp_path / "f.jsonl") as env, pytest.raises(paddock.errors.EpisodeFailed):
        env.reset(seed=0)
    (episode,) = TraceReader(tmp_path / "f.jsonl")
    assert (episode.error.code, episode.observation, episode.steps) == ("EPISODE_FAILED", None, ())


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"split": "test", "index": 3}, {"split": "test", "index": 3}),
        ({"name": "walk"}, None),
        ("walk", None),
        (None, None),
    ],
)
def test_the_header_has_the_task_that_reset_tells_of(tmp_path, task, expected):
    class Working(Camera):
        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed, options=options)
            return observation, {**info, "task": task}

    (episode,) = TraceReader(record(tmp_path / "w.jsonl", Working(), seeds=(0,)))
    assert episode.task == expected


def test_a_task_with_what_has_no_form_is_recorded_without_it(tmp_path):
    class Working(Camera):
        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed, options=options)
            return observation, {**info, "task": {"split": "test", "index": 3, "handle": object()}}

    (episode,) = TraceReader(record(tmp_path / "w.jsonl", Working(), seeds=(0,)))
    assert (episode.task["index"], episode.task["handle"].kind) == (3, "builtins.object")


def test_spaces_of_a_class_of_ones_own_are_left_out_and_their_values_kept(tmp_path):
    class Even(Discrete):
        def contains(self, x):
            return super().contains(x) and x % 2 == 0

    class Odd(Camera):
        def __init__(self):
            super().__init__()
            self.observation_space = paddock.spaces.Tuple([Even(10), Box(0, 255, (8, 8), np.uint8)])

        def _seen(self):
            return (2 * self.count, np.full((8, 8), self.count, np.uint8))

    (episode,) = TraceReader(record(tmp_path / "o.jsonl", Odd(), seeds=(0,)))
    assert episode.observation_space is None
    assert episode.steps[0].observation[0] == 2
    assert episode.steps[0].observation[1].shape == (8, 8)


def test_no_spec_names_the_recorder(tmp_path):
    with Recorder(paddock.make("CartPole-v1"), tmp_path / "c.jsonl") as env:
        assert env.spec == paddock.make("CartPole-v1").spec


@pytest.mark.parametrize("there", ["t.jsonl", "t.jsonl.arrays"])
def test_a_trace_that_is_there_is_not_overwritten_unawares(tmp_path, there):
    (tmp_path / there).write_text("precious")
    with pytest.raises(FileExistsError, match="exists, and a trace is not overwritten. Name another, or remove it."):
        TraceWriter(tmp_path / "t.jsonl")
    assert (tmp_path / there).read_text() == "precious"
    TraceWriter(tmp_path / "t.jsonl", overwrite=True).close()
    assert not (tmp_path / "t.jsonl.arrays").exists()


def test_episodes_of_many_threads_are_kept_apart(tmp_path):
    writer = TraceWriter(tmp_path / "t.jsonl")
    barrier = threading.Barrier(8)

    def play(number):
        env = Camera(goal=5)
        episode = writer.begin(Opening.of(env, seed=number), number=number)
        barrier.wait()
        episode.reset(*env.reset(seed=number))
        for _ in range(5):
            episode.step(number % 3, *env.step(number % 3))
        episode.end()

    threads = [threading.Thread(target=play, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    episodes = sorted(TraceReader(tmp_path / "t.jsonl"), key=lambda episode: episode.number)
    assert [(e.number, e.seed, len(e.steps), {s.action for s in e.steps}) for e in episodes] == [
        (number, number, 5, {number % 3}) for number in range(8)
    ]


def test_after_the_end_nothing_is_written(tmp_path):
    env = Camera()
    with TraceWriter(tmp_path / "t.jsonl") as writer:
        episode = writer.begin(Opening.of(env, seed=0))
        episode.reset(*env.reset(seed=0))
        episode.end(("DEADLINE", "too late"))
        with pytest.raises(InvalidTrace, match="has ended"):
            episode.step(1, *env.step(1))
        with pytest.raises(InvalidTrace, match="already"):
            writer.begin(Opening.of(env, seed=0), number=0)
    with pytest.raises(InvalidTrace, match="closed"):
        writer.begin(Opening.of(env, seed=0))
    (read,) = TraceReader(tmp_path / "t.jsonl")
    assert read.error.code == "DEADLINE"


def test_a_value_that_can_not_be_written_leaves_the_trace_whole(tmp_path):
    env = Camera()
    with TraceWriter(tmp_path / "t.jsonl") as writer:
        episode = writer.begin(Opening.of(env, seed=0))
        with pytest.raises(InvalidTrace, match="observation"):
            episode.reset(object(), {})
        with pytest.raises(InvalidTrace, match="brackets and commas"):
            episode.reset(env.reset(seed=0)[0], {"many": [None] * (1 << 20)})
        episode.reset(env.reset(seed=0)[0], {})
        episode.end()
    (read,) = TraceReader(tmp_path / "t.jsonl")
    assert read.observation["image"].shape == (8, 8)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, which Linux has: it runs there")
def test_a_full_disk_is_an_error_and_ends_the_trace(tmp_path):
    (tmp_path / "t.jsonl").symlink_to("/dev/full")
    with TraceWriter(tmp_path / "t.jsonl", overwrite=True) as writer:
        with pytest.raises(OSError, match="No space"):
            writer.begin(Opening.of(Counter(), seed=0))
        with pytest.raises(InvalidTrace, match="could not be written"):
            writer.begin(Opening.of(Counter(), seed=0))


def test_lines_that_are_held_back_are_the_same_and_there_when_they_are_handed_over(tmp_path):
    record(tmp_path / "at_once.jsonl")
    with TraceWriter(tmp_path / "held.jsonl", seal=True, hold=1 << 20) as writer, Recorder(Camera(), writer) as env:
        env.reset(seed=0)
        env.step(1)
        assert (tmp_path / "held.jsonl").read_bytes().count(b"\n") == 2  # it has begun
        writer.flush()
        assert (tmp_path / "held.jsonl").read_bytes().count(b"\n") == 3
        while not any(env.step(1)[2:4]):
            pass
        writer.flush()
        (first,) = TraceReader(tmp_path / "held.jsonl")
        assert first.total_return is not None
        env.reset(seed=1)
        while not any(env.step(1)[2:4]):
            pass
    held = (tmp_path / "held.jsonl").read_bytes().splitlines()
    assert held[:-1] == (tmp_path / "at_once.jsonl").read_bytes().splitlines()
    assert len(list(TraceReader(tmp_path / "held.jsonl"))) == 2


def test_more_lines_than_are_held_back_are_written(tmp_path):
    with TraceWriter(tmp_path / "t.jsonl", hold=100) as writer, Recorder(Counter(99), writer) as env:
        env.reset(seed=0)
        for _ in range(5):
            env.step(1)
        assert (tmp_path / "t.jsonl").stat().st_size > 500


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, which Linux has: it runs there")
def test_a_full_disk_is_an_error_of_whoever_hands_over_the_lines(tmp_path):
    (tmp_path / "t.jsonl").symlink_to("/dev/full")
    writer = TraceWriter(tmp_path / "t.jsonl", overwrite=True, hold=1 << 20)
    writer.begin(Opening.of(Counter(), seed=0))
    with pytest.raises(OSError, match="No space"):
        writer.flush()
    with pytest.raises(InvalidTrace, match="could not be written"):
        writer.begin(Opening.of(Counter(), seed=0))
    writer.close()


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_file_cut_anywhere_gives_all_whole_lines(path, data):
    text = path.read_bytes()
    at = data.draw(st.integers(0, len(text)), label="at")
    cut = path.parent / "cut.jsonl"
    cut.write_bytes(text[:at])
    (path.parent / "cut.jsonl.arrays").write_bytes((path.parent / "t.jsonl.arrays").read_bytes())
    reader = TraceReader(cut)
    episodes = list(reader)
    lines = text[:at].split(b"\n")
    assert (reader.torn is not None) == (lines[-1] != b"")
    assert sum(len(e.steps) for e in episodes) == sum(b'"type":"step"' in line for line in lines[:-1])
    assert [e.ended for e in episodes].count(True) == sum(b'"type":"end"' in line for line in lines[:-1])
    assert all(e.total_return is None for e in episodes if not e.ended)


def flaw_of(path):
    """What the reader says against a trace, or None."""
    try:
        list(TraceReader(path))
    except InvalidTrace as error:
        return str(error)
    return None


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_any_change_is_read_as_a_trace_or_refused_never_more(path, data):
    text = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        piece = data.draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b"[" * 50, b'"$array"', b"null", b"-1", b"1e400"]))
        )
        text[at : at + data.draw(st.integers(0, 6))] = piece
    bad = path.parent / "bad.jsonl"
    bad.write_bytes(text)
    (path.parent / "bad.jsonl.arrays").write_bytes((path.parent / "t.jsonl.arrays").read_bytes())
    flaw = flaw_of(bad)
    assert flaw is None or "line " in flaw


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_never_crash_the_reader(tmp_path, junk):
    (tmp_path / "junk.jsonl").write_bytes(junk)
    flaw = flaw_of(tmp_path / "junk.jsonl")
    assert flaw is None or "line " in flaw


def changed(path, line, change):
    """The trace with one line changed by a function of its data, or replaced by bytes."""
    lines = path.read_bytes().splitlines(keepends=True)
    if callable(change):
        fields = json.loads(lines[line])
        change(fields)
        lines[line] = json.dumps(fields).encode() + b"\n"
    else:
        lines[line : line + 1] = change
    path.write_bytes(b"".join(lines))
    return path


def setting(*keys, to):
    def change(fields):
        *outer, last = keys
        for key in outer:
            fields = fields[key]
        fields[last] = to

    return change


HEADER, RESET, STEP, LAST, END = 0, 1, 2, 4, 5


@pytest.mark.parametrize(
    ("line", "change", "said"),
    [
        (HEADER, setting("format", to="paddock.trace.v9"), "format 'paddock.trace.v9'"),
        (HEADER, setting("seed", to="1"), "Expected `int"),
        (HEADER, setting("options", to=[1]), "options and about are objects"),
        (HEADER, setting("spaces", to=5), "spaces of episode 5"),
        (HEADER, setting("spaces", to={}), "observation and action"),
        (HEADER, setting("spaces", "action", to={"paddock": 1, "type": "Evil"}), "Evil"),
        (HEADER, setting("spaces", "action", to={"paddock": 1, "type": "Discrete", "n": 1 << 80}), "line 1"),
        (HEADER, setting("spec", to={"id": "../../x", "entry_point": "os:system"}), "line 1"),
        (HEADER, setting("env", to="x" * 2000), "more than 1000"),
        (HEADER, setting("more", to=1), "unknown field"),
        (HEADER, [b""], "without a header"),
        (RESET, [b""], "before its reset"),
        (RESET, setting("info", to=[]), "an info is an object"),
        (RESET, setting("observation", "at", to=100), r"\$.at"),
        (RESET, setting("episode", to=7), "episode 7 without a header"),
        (STEP, setting("action", to=3), "from 0 to 2"),
        (STEP, setting("action", to="1"), "from 0 to 2"),
        (STEP, setting("reward", to=None), "not a number"),
        (STEP, setting("reward", to=True), "not a number"),
        (STEP, setting("reward", to=9.0), "return 6.0"),
        (STEP, setting("terminated", to=1), "Expected `bool`"),
        (STEP, setting("terminated", to=True), "after its last one"),
        (STEP, setting("type", to="evil"), "Invalid value"),
        (STEP, setting("observation", "image", to=[[0] * 8] * 7), r"\$.image"),
        (STEP, setting("observation", "image", "$array", 0, to=0), "before the end of the one before"),
        (STEP, setting("observation", "image", "$array", 0, to=-64), "before the end"),
        (STEP, setting("observation", "image", "$array", 0, to=1 << 40), "has 512"),
        (STEP, setting("observation", "image", "$array", 0, to="0"), "a reference"),
        (STEP, setting("observation", "image", "$array", 1, to="|O"), "an array of '|O'"),
        (STEP, setting("observation", "image", "$array", 1, to="|i1"), r"\$.image"),
        (STEP, setting("observation", "image", "$array", 2, to=[64]), r"\$.image"),
        (STEP, setting("observation", "image", "$array", 2, to=[8, -8]), "shape"),
        (STEP, setting("observation", "image", "$array", 2, to=[1 << 31, 1 << 31]), "too large"),
        (STEP, setting("observation", "image", "$array", 2, to=[1 << 35]), "at most"),
        (STEP, setting("observation", "image", "$array", 3, to="0" * 64), "not the one that was recorded"),
        (STEP, setting("observation", "image", "$array", 3, to=None), "a reference"),
        (STEP, [b'{"type":"step","type":"step"}\n'], "the key 'type' occurs twice"),
        (STEP, [b"{}\n"], "not a line of a trace"),
        (STEP, [b"[]\n"], "not a line of a trace"),
        (STEP, [b"\n"], "not JSON"),
        (STEP, [b'{"type": NaN}\n'], "NaN"),
        (STEP, [b'{"type": 1e999}\n'], "too large"),
        (STEP, [b"[" * 100_000 + b"\n"], "nested deeper than"),
        (STEP, [b"9" * 10_000 + b"\n"], "line 3"),
        (STEP, [b"\xff\xfe\n"], "not UTF-8|not JSON"),
        (END, setting("return", to=7.0), "whose rewards sum to 6.0"),
        (END, setting("return", to=None), "whose rewards sum to 6.0"),
        (END, setting("error", to={"code": "X", "message": "y"}), "an error and a return"),
        (END, setting("episode", to=1), "without a header"),
        (6, setting("episode", to=0), "a second header"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hostile_line_is_refused_by_its_number(path, line, change, said):
    with pytest.raises(InvalidTrace, match=said) as caught:
        list(TraceReader(changed(path, line, change)))
    assert "line " in str(caught.value)


def test_few_bytes_can_not_be_read_as_many_arrays(path):
    """Every step refers to the same megabyte: refused at the second, before a second megabyte is held."""
    lines = path.read_bytes().splitlines()
    reference = json.loads(lines[RESET])["observation"]["image"]
    text = [json.loads(line) for line in lines[:3]] + [json.loads(lines[2]) for _ in range(1000)]
    for line in text[1:]:
        line["observation"]["image"] = reference
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in text))
    with pytest.raises(InvalidTrace, match=r"line 3: \$\.image has the tag '\$array': an array at 0, before the end"):
        list(TraceReader(path))


def test_arrays_that_are_missing_cut_or_a_link_are_refused(path, tmp_path):
    arrays = tmp_path / "t.jsonl.arrays"
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:100])
    with pytest.raises(InvalidTrace, match="line 3: .* has 100"):
        list(TraceReader(path))
    arrays.unlink()
    with pytest.raises(InvalidTrace, match="line 2: .* its arrays can't be read"):
        list(TraceReader(path))
    (tmp_path / "secret").write_bytes(whole)
    arrays.symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidTrace, match="can't be read"):
        list(TraceReader(path))
    arrays.unlink()
    os.mkfifo(arrays)
    with pytest.raises(InvalidTrace, match="is not a file"):
        list(TraceReader(path))


def test_a_sparse_file_of_a_terabyte_is_no_array(path, tmp_path):
    with open(tmp_path / "t.jsonl.arrays", "r+b") as arrays:
        arrays.truncate(1 << 40)
    changed(path, STEP, setting("observation", "image", "$array", 2, to=[1 << 36]))
    with pytest.raises(InvalidTrace, match="at most"):
        list(TraceReader(path))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(line_bytes=200), "longer than 200"),
        (Limits(line_pieces=5), "more than 5 brackets"),
        (Limits(array_bytes=63), "at most 63"),
        (Limits(held_bytes=2000), "take more than 2000"),
        (Limits(episodes=1), "more than 1 episodes"),
    ],
    ids=str,
)
def test_limits_are_kept(path, limits, said):
    with pytest.raises(InvalidTrace, match=said):
        list(TraceReader(path, limits=limits))


def test_an_episode_that_ended_is_held_no_longer(tmp_path):
    path = record(tmp_path / "many.jsonl", seeds=range(40))
    assert len(list(TraceReader(path, limits=Limits(held_bytes=12_000)))) == 40


def test_spaces_that_are_kept_for_later_episodes_count_for_ever(tmp_path):
    """Else each of a million episodes could bring its own, and end."""
    path = record(tmp_path / "t.jsonl", seeds=(0,))
    lines = path.read_text().splitlines(keepends=True)
    episodes = [[line.replace('"episode":0', f'"episode":{n}') for line in (lines[0], lines[-1])] for n in range(50)]
    text = "".join(line for pair in episodes for line in pair).replace('"return":6.0', '"return":0.0')
    path.write_text(unchained(text))
    assert len(list(TraceReader(path))) == 50
    with pytest.raises(InvalidTrace, match="take more than 20000"):
        list(TraceReader(path, limits=Limits(held_bytes=20_000)))


@pytest.mark.parametrize("seed", [-1, 1.5, "x"])
def test_a_seed_that_the_environment_refuses_leaves_a_trace_that_can_be_read(tmp_path, seed):
    with Recorder(Camera(), tmp_path / "t.jsonl") as env, pytest.raises(paddock.errors.InvalidSeed):
        env.reset(seed=seed)
    (episode,) = TraceReader(tmp_path / "t.jsonl")
    assert episode.error.code == "INVALID_SEED"


def test_a_line_that_never_ends_is_not_read_into_memory(tmp_path):
    with open(tmp_path / "big.jsonl", "wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(InvalidTrace, match="line 1: longer than"):
        list(TraceReader(tmp_path / "big.jsonl", limits=Limits(line_bytes=1 << 16)))


def test_reading_a_trace_imports_nothing_that_it_names(path, monkeypatch):
    spec = {"id": "Evil-v0", "entry_point": "antigravity:fly", "kwargs": {}}
    changed(path, HEADER, setting("spec", to=spec))
    path.write_text(unchained(path.read_text()))
    import sys

    list(TraceReader(path))
    assert "antigravity" not in sys.modules


def test_text_spaces_of_any_characters_survive(tmp_path):
    class Speaker(Counter):
        def __init__(self):
            super().__init__(1)
            self.observation_space = Text(5, charset="\n\r\u2028\x85é\x1b")

        def reset(self, *, seed=None, options=None):
            return "\n\r\u2028\x85\x1b", {}

        def step(self, action):
            return "é", 0.0, True, False, {}

    (episode,) = TraceReader(record(tmp_path / "s.jsonl", Speaker(), seeds=(0,)))
    assert (episode.observation, episode.steps[0].observation) == ("\n\r\u2028\x85\x1b", "é")


def edited(path, change):
    """The trace with its lines, as data, changed."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in change(lines)))
    return path


@pytest.mark.parametrize("field", ["digest", "spec"])
def test_header_whose_digest_is_not_that_of_its_spec_is_refused(tmp_path, field):
    path = record(tmp_path / "t.jsonl", paddock.make("CartPole-v1"), seeds=(1,))

    def change(lines):
        if field == "digest":
            lines[0]["digest"] = "0" * 64
        else:
            lines[0]["spec"]["kwargs"]["sutton_barto_reward"] = True
        return lines

    assert len(list(TraceReader(path))) == 1
    with pytest.raises(InvalidTrace, match=r"line 1: the digest '.*' is not that of the spec"):
        list(TraceReader(edited(path, change)))


@pytest.mark.process
@pytest.mark.parametrize(
    "made",
    [
        lambda: paddock.make("CartPole-v1", max_episode_steps=7),
        lambda: paddock.make("Taxi-v4", is_rainy=True),
        lambda: paddock.make("FrozenLake-v1", desc=["SF", "HG"], success_rate=0.5, reward_schedule=(2, -1, 0)),
        lambda: paddock.make("Pendulum-v1", wrappers=[paddock.wrappers.ClipReward.wrapper_spec(min_reward=-1.0)]),
        lambda: paddock.make("paddock/Echo"),
        lambda: paddock.make("CartPole-v1", isolation="process"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_digest_survives_the_way_through_the_file(tmp_path, made):
    path = tmp_path / "t.jsonl"
    with Recorder(made(), path) as env:
        env.reset(seed=1)
    (episode,) = TraceReader(path)
    assert episode.digest is not None and episode.spec is not None


def sealed(path):
    with TraceWriter(path, seal=True) as writer:
        recorder = Recorder(Camera(), writer)
        for seed in range(3):
            recorder.reset(seed=seed)
            while not any(recorder.step(1)[2:4]):
                pass
    return path


def test_sealed_trace_is_read_and_says_so(tmp_path, path):
    reader = TraceReader(sealed(tmp_path / "s.jsonl"))
    assert [episode.seed for episode in reader] == [0, 1, 2]
    assert reader.sealed
    old = TraceReader(path)
    assert len(list(old)) == 2
    assert not old.sealed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [one for one in lines if one.get("episode") != 2], "over 3 episodes, and 2 are here"),
        (lambda lines: [*lines[:1], *lines[2:]], "."),
        (lambda lines: [*lines[:-1], {**lines[-1], "episodes": 2}], "over 2 episodes, and 3 are here"),
        (lambda lines: [*lines, lines[-1]], "a line after the seal"),
        (lambda lines: [lines[-1], *lines[:-1]], "over 3 episodes, and 0 are here"),
        (lambda lines: [{**lines[0], "env": "another"}, *lines[1:]], "changed, moved or left out"),
    ],
)
def test_seal_finds_what_is_left_out_or_changed(tmp_path, change, said):
    path = edited(sealed(tmp_path / "s.jsonl"), lambda lines: lines)
    assert len(list(TraceReader(path))) == 3
    with pytest.raises(InvalidTrace, match=said):
        list(TraceReader(edited(path, change)))


def _drop(episodes):
    return [episodes[0], episodes[2]]


def _swap(episodes):
    return [episodes[0], episodes[2], episodes[1]]


def _change(episodes):
    return [episodes[0], [line.replace('"seed":1', '"seed":9') for line in episodes[1]], episodes[2]]


@pytest.mark.parametrize("change", [_drop, _swap, _change])
def test_chain_finds_an_episode_that_is_dropped_moved_or_changed_without_a_seal(tmp_path, change):
    path = record(tmp_path / "t.jsonl", Counter(), seeds=(0, 1, 2))
    lines = path.read_text().splitlines(keepends=True)
    episodes = [[line for line in lines if f'"episode":{number},' in line] for number in range(3)]
    changed_text = "".join(line for episode in change(episodes) for line in episode)
    path.write_text(unchained(changed_text))
    assert len(list(TraceReader(path))) == len(change(episodes))  # nothing else notices it
    path.write_text(changed_text)
    with pytest.raises(InvalidTrace, match=r"the end of episode \d was written after other lines than these"):
        list(TraceReader(path))


def test_chain_never_stops_midway(tmp_path):
    path = record(tmp_path / "t.jsonl", Counter())
    text = path.read_text()
    middle = text.index('"episode":1,')
    path.write_text(text[:middle] + unchained(text[middle:]))
    with pytest.raises(InvalidTrace, match="the end of episode 1 has no chain, and those before have one"):
        list(TraceReader(path))
    path.write_text(unchained(text[:middle]) + text[middle:])  # the other way round the chain has other lines before it
    with pytest.raises(InvalidTrace, match="after other lines"):
        list(TraceReader(path))


def test_appended_episodes_go_on_with_the_chain(tmp_path):
    path = record(tmp_path / "t.jsonl", Counter(), seeds=(0,))
    path.write_text(unchained(path.read_text()) + '{"type":"header","epi')  # an older trace that broke off
    with TraceWriter(path, append=True) as writer, Recorder(Counter(), writer) as env:
        writer.reserve(1)
        env.reset(seed=1)
    assert [episode.seed for episode in TraceReader(path)] == [0, 1]
    path.write_text(path.read_text().replace('"seed":0', '"seed":9'))
    with pytest.raises(InvalidTrace, match="the end of episode 1 was written after other lines"):
        list(TraceReader(path))


def test_trace_that_broke_off_has_no_seal(tmp_path):
    path = sealed(tmp_path / "s.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    reader = TraceReader(path)
    assert len(list(reader)) == 3
    assert not reader.sealed
