"""Much the same typed action as a dataclass, a pydantic model and a msgspec struct."""

import dataclasses
import enum
from typing import Annotated, Any, Literal, Optional

import msgspec
import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from paddock.spaces import Box, Dict, Discrete, Text, Tuple

CORNER = Annotated[np.ndarray, Box(-1, 1, (2,))]
PARTS = Annotated[dict[str, Any], Dict({"a": Box(0, 1, (2,)), "b": Tuple([Discrete(3), Text(4)])})]
Small = Annotated[int, msgspec.Meta(ge=0, lt=9)]
Word = Annotated[str, msgspec.Meta(pattern="^[a-z]{3,5}$")]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Step:
    to: int
    how: Literal["walk", "run"] = "walk"


@dataclasses.dataclass
class Plain:
    corner: CORNER
    small: Small
    gear: Annotated[int, Discrete(5)]
    word: Word
    steps: list[Step] = dataclasses.field(default_factory=list)
    corners: list[CORNER] = dataclasses.field(default_factory=list)
    parts: PARTS | None = None
    last: Step | None = None
    either: int | str | None = None
    pair: tuple[int, str] = (1, "a")
    many: tuple[float, ...] = ()
    chosen: set[int] = dataclasses.field(default_factory=set)
    color: Color = Color.RED
    counts: dict[str, list[bool]] = dataclasses.field(default_factory=dict)
    data: bytes = b""
    speed: float = 1.0
    note: Any = None
    child: Optional["Plain"] = None


class Packed(msgspec.Struct, tag=True, rename="camel"):
    corner: CORNER
    small: Small
    gear: Annotated[int, Discrete(5)]
    word: Word
    steps: list[Step] = []
    all_corners: list[CORNER] = []
    parts: PARTS | None = None
    last: Step | None = None
    either: int | str | None = None
    pair: tuple[int, str] = (1, "a")
    chosen: frozenset[int] = frozenset()
    color: Color = Color.RED
    speed: float = 1.0
    child: Optional["Packed"] = None


class Go(BaseModel):
    kind: Literal["go"] = "go"
    to: int = Field(ge=0, lt=9)


class Say(BaseModel):
    kind: Literal["say"] = "say"
    text: Annotated[str, Field(pattern="^[a-z]+$")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    corner: CORNER
    small: Annotated[int, Field(ge=0, lt=9)]
    gear: Annotated[int, Discrete(5)]
    word: Annotated[str, Field(pattern="^[a-z]{3,5}$")]
    act: Annotated[Go | Say, Field(discriminator="kind")]
    other: Go | Say | None = None
    steps: list[Step] = []
    corners: list[CORNER] = []
    parts: PARTS | None = None
    last: Step | None = None
    either: int | str | None = None
    pair: tuple[int, str] = (1, "a")
    chosen: set[int] = set()
    color: Color = Color.RED
    counts: dict[int, float] = {}
    speed: float = 1.0
    note: Any = None
    renamed: int = Field(1, alias="outsideName")
    child: Optional["Model"] = None


KINDS = {"dataclass": Plain, "msgspec": Packed, "pydantic": Model}


def plain_of(kind):
    """The fields that have no default, as plain data."""
    least = {"corner": [0.5, -1.0], "small": 8, "gear": 4, "word": "abc"}
    return {**least, **{"msgspec": {"type": "Packed"}, "pydantic": {"act": {"kind": "go", "to": 3}}}.get(kind, {})}
