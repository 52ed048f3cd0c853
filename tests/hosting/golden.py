"""Messages whose frames are kept in golden_frames.json: every message and every kind of value.

The bytes are a contract with workers written elsewhere. To add a case, add it here and run, in the project's folder,
``python -m tests.hosting.golden``: it adds what is missing and changes nothing that is there.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np

from paddock.core.spec import EnvSpec
from paddock.hosting.codec import encode
from paddock.hosting.layout import StepLayout
from paddock.hosting.messages import (
    Attach,
    Call,
    Close,
    Done,
    Failed,
    Hello,
    Make,
    Outcome,
    Refuse,
    Render,
    Reset,
    Restore,
    Resume,
    Rows,
    Snapshot,
    State,
    Step,
    StepJson,
    StepRows,
    Waiting,
    Welcome,
)
from paddock.spaces import Box, Dict, Discrete, Graph, GraphInstance, MultiBinary, OneOf, Sequence, Text, Tuple

FILE = Path(__file__).parent / "golden_frames.json"
REQUEST_ID = 7


class Ticket:
    """Stands for a value that only pickle carries; the tests' pickler writes its number."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Ticket) and other.number == self.number

    __hash__ = None


@dataclasses.dataclass
class Label:
    """A record, which arrives as a dict of its fields."""

    text: str
    place: np.ndarray


def pickler(value):
    return b"ticket %d" % value.number


def unpickler(data):
    return Ticket(int(data.removeprefix(b"ticket ")))


def _objects():
    array = np.empty((2, 2), object)
    array[0, 0], array[0, 1], array[1, 0], array[1, 1] = (1, None), [2.5], "x", np.arange(2)
    return array


_NAN_WITH_PAYLOAD = np.array([0x7FF8000000001234], "<u8").view("<f8")[0]

VALUES = {
    "none": None,
    "bools": [True, False],
    "ints": [0, -1, 255, 2**63, -(2**63), 2**64 - 1],
    "floats": [1.5, -0.0, float("inf"), float(_NAN_WITH_PAYLOAD)],
    "text": ["", "plain", "Füße 🐎"],
    "bytes": b"\x00\xff",
    "nested": {"a": [1, {"b": []}], "c": {}},
    "tuple": (1, (), (2.0, [3])),
    "big_int": [2**64, -(2**63) - 1, 10**40],
    "complex": complex(-0.0, 2.5),
    "dict_with_other_keys": {1: "a", "$": "b", (2, 3): None, b"k": 1.0, "ü": 0},
    "long_text": "ä" * 512,
    "long_bytes": bytes(range(256)) * 4,
    "array_float32": np.arange(4, dtype="<f4"),
    "array_big_endian": np.arange(3, dtype=">i2"),
    "array_bool": np.array([[True], [False]]),
    "array_zero_axes": np.array(3, "<i8"),
    "array_empty": np.zeros((0, 3), "<f8"),
    "array_text": np.array(["ab", "🐎"], "<U2"),
    "array_bytes": np.array([b"abc", b""], "S3"),
    "array_complex": np.array([1 + 2j], "<c8"),
    "arrays_in_order": [np.array([1], "u1"), {"x": np.array([2], "<f2")}, (np.array([3], "<i4"),)],
    "objects": _objects(),
    "scalars": [np.float32(0.1), np.int64(-1), np.bool_(True), np.uint8(7), np.complex128(1j), np.float16(2)],
    "text_scalars": [np.str_("a\0"), np.bytes_(b"b\0")],
    "graph": GraphInstance(np.zeros((2, 1), "<f4"), None, np.array([[0, 1]], "<i4")),
    "spaces": [
        Box(-1, 1, (2,), np.float32),
        Discrete(3, start=1),
        Dict({"a": MultiBinary(2), "b": Text(3)}),
        Tuple([OneOf([Discrete(2)]), Sequence(Discrete(2)), Graph(Box(0, 1, (1,)), None)]),
    ],
    "spec": EnvSpec("acme/Maze-v2", "acme.maze:Maze", max_episode_steps=50, kwargs={"size": [3, 4]}),
    "generator": np.random.Generator(np.random.PCG64(42)),
    "failed": [Failed("INVALID_ACTION", "no", "InvalidAction", "line 1")],
    "pickled": [Ticket(7)],
}

_FLOATS, _INTEGER = {"array": ["<f4", [4]]}, {"array": ["<i8", []]}


def _rows(observations, *results):
    return bytearray(StepLayout(observations, None).pack_result(*results))


MESSAGES = {
    "make": Make(0, {"id": "CartPole-v1", "kwargs": {}}, "NextStep"),
    "reset": Reset(1, 2**70, {"low": -0.5}),
    "reset_default": Reset(1),
    "step": Step([0, 1], [np.int64(1), np.array([0.5], "<f4")]),
    "step_rows": StepRows(rows=bytearray(np.array([1], "<i8"))),
    "step_rows_plain": StepRows(plain=True, rows=bytearray(np.array([-3], "<i8"))),
    "step_rows_shared": StepRows([1, 2]),
    "step_rows_values": StepRows([1], ["left"]),
    "state": State(0),
    "render": Render(2),
    "snapshot": Snapshot(0),
    "restore": Restore(0, b"snap"),
    "restore_long": Restore(0, b"s" * 1030),
    "call": Call(0, "set_level", [3], {"hard": True}),
    "call_get": Call(0, "gravity", how="get"),
    "close": Close(3),
    "close_all": Close(),
    "refuse": Refuse("NOT_PERMITTED", "not for you"),
    "done_step": Done([[np.arange(4, dtype="<f4"), 1.0, False, False, {}]]),
    "rows": Rows(rows=_rows(_FLOATS, np.arange(4, dtype="<f4"), 1.0, False, True)),
    "rows_notes": Rows([[0, {"near": np.arange(3)}]], True, _rows(_INTEGER, 5, -0.5, True, False)),
    "rows_shared": Rows(),
    "rows_shared_notes": Rows([[1, {"a": 1}], [2, Failed("ENV_FAILED", "no")]]),
    "failed": Failed("ENV_FAILED", "it broke", "ZeroDivisionError", "x" * 1100),
    "step_json": StepJson(b'{"value":1}'),
    "outcome": Outcome(b'{"value":1}', 1.5, True, False),
    "attach": Attach(4, {"array": ["<f4", [4]]}, None),
    "hello": Hello(),
    "hello_resume": Hello(Resume("5e55" * 8, "70ce" * 8, 6, "401d", 2)),
    "waiting": Waiting(87),
    "waiting_for": Waiting(87, 41.5),
    "welcome": Welcome("5e55" * 8, "70ce" * 8, 3, 6, 60.0),
    **{f"value_{name}": Done(value) for name, value in VALUES.items()},
    "value_struct": Done(Label("ü", np.arange(2, dtype="<f4"))),
}
# What is read, where that is not the message itself.
ARRIVES = {"value_struct": Done({"text": "ü", "place": np.arange(2, dtype="<f4")})}


def frame_of(message):
    may_pickle = not (isinstance(message, Done) and isinstance(message.value, Label))
    return b"".join(encode(message, REQUEST_ID, pickler=pickler if may_pickle else None))


def stored():
    return {name: bytes.fromhex(text) for name, text in json.loads(FILE.read_text()).items()}


if __name__ == "__main__":
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    frames = {name: kept.get(name) or frame_of(message).hex() for name, message in MESSAGES.items()}
    FILE.write_text(json.dumps(frames, indent=1) + "\n")
