"""@tool: what types and docstrings become, and which mistakes of an author are told where the class is defined."""

import dataclasses
from enum import Enum
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from paddock.agentic import CallTool, Image, Text, ToolEnv, ToolInfo, tool
from paddock.agentic.tools import MOST_CHARS
from paddock.errors import InvalidTool
from paddock.spaces import Box


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


@dataclasses.dataclass
class Place:
    x: int
    y: int = 0


class Point(BaseModel):
    x: int


class Many(ToolEnv):
    """Has many kinds of tools."""

    @tool
    def simple(self, word: str, count: int = 1, ratio: float = 0.5, loud: bool = False) -> str:
        """Repeat a word.

        Args:
            word: the word.
            count: how often.
        """
        return f"{word * count} {ratio} {loud}"

    @tool
    def choose(self, way: Literal["left", "right"], mood: Mood = Mood.GOOD, limit: int | None = None) -> dict[str, Any]:
        """Choose."""
        return {"way": way, "mood": mood.value, "limit": limit}

    @tool
    def go(self, place: Place, stops: list[Place] = []) -> list[int]:  # noqa: B006 - each call gets its own
        """Go."""
        stops.append(place)
        return [stop.x for stop in stops]

    @tool
    def press(self, point: Point) -> Point:
        """Press."""
        return Point(x=point.x + 1)

    @tool
    def look(self, at: Annotated[np.ndarray, Box(0, 9, (2,), np.int64)]) -> list[Text | Image]:
        """Look."""
        return [Text(f"at {at.tolist()}"), Image("aGk=")]

    @tool
    def bounded(self, n: Annotated[int, msgspec.Meta(ge=1, le=9)]) -> int:
        """Bounded."""
        return n

    @tool
    def nothing(self) -> None:
        """Nothing."""

    @tool
    def anything(self, value: Any) -> Any:
        """Give back."""
        return value

    @tool
    async def later(self) -> float:
        """Wait."""
        return 1.5


@pytest.fixture
def env():
    with Many() as env:
        env.reset(seed=1)
        yield env


def called(env, name, **arguments):
    return env.step(CallTool(name, arguments))[0]


def test_the_schema_comes_from_types_and_docstring():
    assert Many.tools["simple"].info == ToolInfo(
        name="simple",
        description="Repeat a word.",
        input_schema={
            "type": "object",
            "properties": {
                "word": {"description": "the word.", "type": "string"},
                "count": {"description": "how often.", "type": "integer", "default": 1},
                "ratio": {"type": "number", "default": 0.5},
                "loud": {"type": "boolean", "default": False},
            },
            "required": ["word"],
            "additionalProperties": False,
        },
        output_schema={"type": "string"},
    )


def test_every_schema_is_a_valid_json_schema_of_an_object():
    for one in Many.tools.values():
        jsonschema.Draft202012Validator.check_schema(one.info.input_schema)
        assert one.info.input_schema["type"] == "object"
        if one.info.output_schema is not None:
            jsonschema.Draft202012Validator.check_schema(one.info.output_schema)


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("simple", {"word": "a", "count": 2}, "aa 0.5 False"),
        ("simple", {"word": "a", "ratio": 2}, "a 2.0 False"),
        ("choose", {"way": "left", "mood": "bad"}, {"way": "left", "mood": "bad", "limit": None}),
        ("go", {"place": {"x": 3}, "stops": [{"x": 1, "y": 2}]}, [1, 3]),
        ("press", {"point": {"x": 3}}, {"x": 4}),
        ("bounded", {"n": 9}, 9),
        ("nothing", {}, None),
        ("anything", {"value": [1, {"a": None}]}, [1, {"a": None}]),
        ("later", {}, 1.5),
    ],
)
def test_arguments_arrive_as_their_types_and_results_leave_as_data(env, name, arguments, result):
    seen = called(env, name, **arguments)
    assert seen.error is None and seen.result == result
    schema = Many.tools[name].info
    jsonschema.validate(arguments, schema.input_schema)
    if schema.output_schema is not None:
        jsonschema.validate(seen.result, schema.output_schema)


def test_a_mutable_default_is_fresh_in_each_call(env):
    assert [called(env, "go", place={"x": 1}).result for _ in range(2)] == [[1], [1]]


def test_content_is_passed_on_as_it_is(env):
    seen = called(env, "look", at=[1, 2])
    assert seen.content == [Text("at [1, 2]"), Image("aGk=")]
    assert seen.result is None and Many.tools["look"].info.output_schema is None


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("simple", {}, "simple: word: this field is missing"),
        ("simple", {"word": 3}, "simple: word: expected str, got 3"),
        ("simple", {"word": "a", "count": "x"}, "simple: count: expected int, got 'x'"),
        ("simple", {"word": "a", "count": True}, "simple: count: expected int, got True"),
        ("simple", {"word": "a", "more": 1}, "simple: more: unknown field"),
        ("choose", {"way": "up"}, "choose: way: expected one of 'left', 'right', got 'up'"),
        ("go", {"place": {"x": 1}, "stops": [{"x": 1}, {"x": "y"}]}, "go: stops[1].x: expected int, got 'y'"),
        ("press", {"point": {"x": "y"}}, "press: point.x: expected int, got 'y'"),
        ("look", {"at": [1, 99]}, "look: at"),
        ("bounded", {"n": 10}, "bounded: n: expected int >= 1 and <= 9, got 10"),
    ],
)
def test_arguments_that_are_wrong_are_told_with_their_place(env, name, arguments, words):
    error = called(env, name, **arguments).error
    assert error.error_type == "invalid_args" and error.message.startswith(words)


def test_a_tool_stays_a_method():
    assert Many().simple("a", loud=True) == "a 0.5 True"


def test_tools_are_inherited_changed_and_dropped():
    class Fewer(Many):
        """Fewer."""

        simple = None

        @tool
        def bounded(self, n: int) -> int:
            """Wider."""
            return n

    assert "simple" not in Fewer.tools and Fewer.tools["bounded"].info.description == "Wider."
    assert [*Many.tools][0] == "simple" and Fewer.tools.keys() < Many.tools.keys()


def test_options_are_those_of_the_decorator():
    class Slow(ToolEnv):
        """Slow."""

        @tool(timeout_s=5, on_error="end", most_chars=9)
        def one(self) -> str:
            """One."""
            return ""

        @tool(timeout_s=None)
        def two(self) -> str:
            """Two."""
            return ""

    assert Slow.tools["one"].options == (5, "end", 9)
    assert Slow.tools["two"].options == (None, "continue", MOST_CHARS)


def _method(text, **names):
    """A function written as text, so that its annotations are those of the text."""
    space = {"tool": tool, "Any": Any, **names}
    exec(f"def build():\n    @tool\n    {text}\n    return locals()", space)
    return space["build"]()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(self, x) -> str: ...", "Wrong.f: argument 'x' has no type"),
        ("def f(self, x: int): ...", "Wrong.f does not say what it returns"),
        ("def f(self, *x: int) -> str: ...", r"can't have \*x"),
        ("def f(self, **x: int) -> str: ...", r"can't have \*\*x"),
        ("def f(self, x: int, /) -> str: ...", "can't have positional-only x"),
        ("def f() -> str: ...", "Wrong.f takes no `self`"),
        ("def f(self, x: object) -> str: ...", "Wrong.f: x: object has no JSON Schema"),
        ("def f(self, x: int) -> complex: ...", "Wrong.f: result: complex has no JSON Schema"),
        ("def f(self, x: 'Nowhere') -> str: ...", "Wrong.f: its annotations can't be evaluated: name 'Nowhere'"),
        (
            "def f(self, x: int) -> str:\n        '''F.\n\n        Args:\n            y: no.\n        '''",
            "'y' that its signature does not have",
        ),
        *(
            (f"def {name}(self) -> str: ...", f"Wrong.{name}: every environment has")
            for name in ("reset", "step", "state", "close", "render", "task", "award", "tools", "info")
        ),
        ("def _f(self) -> str: ...", "must not begin with an underscore"),
    ],
)
def test_mistakes_of_the_author_are_told_where_the_class_is_defined(text, words):
    with pytest.raises(InvalidTool, match=words):
        type("Wrong", (ToolEnv,), _method(text))


@pytest.mark.parametrize(
    "options", [{"on_error": "stop"}, {"timeout_s": 0}, {"timeout_s": "long"}, {"most_chars": 0}, {"most_chars": 1.5}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidTool, match=next(iter(options))):
        tool(**options)


def test_only_methods_are_tools():
    with pytest.raises(InvalidTool, match="decorates a method"):
        tool(3)
    with pytest.raises(InvalidTool, match="not a staticmethod"):

        class Wrong(ToolEnv):
            """Wrong."""

            @staticmethod
            @tool
            def f(x: int) -> int:
                """F."""
                return x


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([*Many.tools, "nope"]) | st.text(),
    JSON
    | st.dictionaries(
        st.sampled_from([name for one in Many.tools.values() for name in one.info.input_schema["properties"]]),
        JSON,
        max_size=4,
    ),
)
def test_whatever_a_model_sends_comes_back_as_an_observation(env, name, arguments):
    observation, reward, terminated, truncated, info = env.step(CallTool(name, arguments))
    assert observation in env.observation_space
    assert (reward, terminated, truncated, info) == (0.0, False, False, {})


def test_content_that_holds_itself_is_an_error_of_the_tool():
    class Loop(ToolEnv):
        """Gives back what has no end."""

        @tool
        def loop(self) -> Any:
            """Loop."""
            endless: list[Any] = [Text("x")]
            endless.append(endless)
            return endless

    with Loop() as env:
        env.reset()
        assert called(env, "loop").error.error_type == "execution_error"
