"""`@tool`: a method that an agent may call. Its types and its docstring are all that anyone is ever told of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, overload

from paddock.agentic.docstring import read_docstring
from paddock.agentic.observations import ToolInfo
from paddock.agentic.signature import Signature
from paddock.errors import InvalidTool

Method = TypeVar("Method", bound=Callable[..., Any])
OnError: TypeAlias = Literal["continue", "end"]

MOST_CHARS = 100_000
_MARK = "_paddock_tool"


class ToolOptions(NamedTuple):
    """How a tool is run. ``timeout_s``: None for no limit, "default" for the environment's own."""

    timeout_s: float | Literal["default"] | None = "default"
    on_error: OnError = "continue"
    most_chars: int = MOST_CHARS


@overload
def tool(method: Method, /) -> Method: ...
@overload
def tool(
    *, timeout_s: float | Literal["default"] | None = "default", on_error: OnError = "continue", most_chars: int = ...
) -> Callable[[Method], Method]: ...
def tool(
    method: Any = None,
    /,
    *,
    timeout_s: float | Literal["default"] | None = "default",
    on_error: OnError = "continue",
    most_chars: int = MOST_CHARS,
) -> Any:
    """Make a method of a ToolEnv a tool; it stays an ordinary method for who calls it in Python.

    timeout_s: how long it may take. on_error: whether the episode goes on when the tool itself fails ("continue": the
    model is told that it did) or ends as an EpisodeFailed ("end"). most_chars: more text than that is an error.
    """
    if on_error not in ("continue", "end"):
        raise InvalidTool(f'on_error={on_error!r}: expected "continue" or "end".')
    if timeout_s not in ("default", None) and not (isinstance(timeout_s, (int, float)) and timeout_s > 0):
        raise InvalidTool(f"timeout_s={timeout_s!r}: expected seconds above zero, or None for no limit.")
    if type(most_chars) is not int or most_chars < 1:
        raise InvalidTool(f"most_chars={most_chars!r}: expected a number of characters above zero.")
    options = ToolOptions(timeout_s, on_error, most_chars)

    def mark(method: Any) -> Any:
        if not inspect.isfunction(method):
            raise InvalidTool(f"@tool stands before a method with `self`, got {method!r:.100}.")
        setattr(method, _MARK, options)
        return method

    return mark if method is None else mark(method)


class Tool:
    """A tool of a class: what is told of it, and how its calls are read."""

    def __init__(self, name: str, function: Callable[..., Any], owner: str) -> None:
        self.name, self.function = name, function
        self.options: ToolOptions = getattr(function, _MARK)
        described = read_docstring(function.__doc__)
        self.signature = Signature(function, described, owner)
        self.info = ToolInfo(name, described.text, self.signature.input_schema, self.signature.output_schema)


def tools_of(cls: type, reserved: frozenset[str]) -> dict[str, Tool]:
    """The tools of a class, those of its parents first; InvalidTool for one that can't be offered."""
    found: dict[str, Tool] = {}
    names = dict.fromkeys(name for parent in reversed(cls.__mro__) for name in vars(parent))
    for name in names:
        function = inspect.getattr_static(cls, name)
        if hasattr(getattr(function, "__func__", None), _MARK):
            raise InvalidTool(f"{cls.__name__}.{name}: a tool is a method with `self`, no {type(function).__name__}.")
        if not hasattr(function, _MARK):
            continue
        if name in reserved:
            raise InvalidTool(f"{cls.__name__}.{name}: environments have a {name!r} of their own; name it otherwise.")
        if name.startswith("_"):
            raise InvalidTool(f"{cls.__name__}.{name}: the name of a tool does not begin with an underscore.")
        found[name] = Tool(name, function, cls.__name__)
    return found
