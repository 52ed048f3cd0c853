"""``@tool``: methods that an agent may call. Callers see a tool's types and its docstring, and nothing else of it.

Agents learn that a call failed, but not the text of the exception: it may hold paths, answers or keys. The log has it.
"""

from __future__ import annotations

import inspect
import logging
import re
import typing
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar, overload

import msgspec

from paddock.agentic.messages import CallTool, ErrorType, Image, Observation, Text, ToolError, ToolInfo, check_blocks
from paddock.agentic.threads import TimedThread, TookTooLong
from paddock.errors import EpisodeFailed, InvalidSpace, InvalidTool, InvalidValue, ToolFailed
from paddock.spaces import Struct
from paddock.spaces.records.fields import is_pydantic

Method = TypeVar("Method", bound=Callable[..., Any])
OnError: TypeAlias = Literal["continue", "end"]

LOG = logging.getLogger("paddock.agentic")
MOST_CHARS = 100_000
_MARK = "_paddock_tool"
_MAX_ERROR_CHARS = 4_000
_MAX_NAMES = 50
_MAX_NAME_CHARS = 60


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
    """Make a method of a ToolEnv a tool; from Python you can still call it as a method.

    timeout_s: how long it may take. on_error: whether the episode goes on when the tool itself fails ("continue": the
    model reads that it failed) or ends as an EpisodeFailed ("end"). most_chars: more text than that is an error.
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
            raise InvalidTool(f"@tool decorates a method with `self`, got {method!r:.100}.")
        setattr(method, _MARK, options)
        return method

    return mark if method is None else mark(method)


def collect_tools(cls: type, reserved: frozenset[str]) -> dict[str, Tool]:
    """Collect the tools of a class, those of its parents first; InvalidTool for one that can't be offered."""
    tools: dict[str, Tool] = {}
    names = dict.fromkeys(name for parent in reversed(cls.__mro__) for name in vars(parent))
    for name in names:
        function = inspect.getattr_static(cls, name)
        if hasattr(getattr(function, "__func__", None), _MARK):
            kind = type(function).__name__
            raise InvalidTool(f"{cls.__name__}.{name}: a tool is a method with `self`, not a {kind}.")
        if not hasattr(function, _MARK):
            continue
        if name in reserved:
            raise InvalidTool(f"{cls.__name__}.{name}: every environment has a {name!r}; choose another name.")
        if name.startswith("_"):
            raise InvalidTool(f"{cls.__name__}.{name}: the name of a tool must not begin with an underscore.")
        tools[name] = Tool(name, function, cls.__name__)
    return tools


# ── Calls ──


class Failure(Exception):
    """Why a call has no result. ``fault``: the tool itself failed, so its ``on_error`` applies."""

    def __init__(self, error_type: ErrorType, message: str, *, fault: bool) -> None:
        super().__init__(message)
        self.error = tool_error(error_type, message)
        self.fault = fault


def tool_error(error_type: ErrorType, message: str) -> ToolError:
    """Make the error that a model reads: short, and valid Unicode whatever the tool said."""
    return ToolError(error_type, _unicode(message[:_MAX_ERROR_CHARS]))


def call_tool(
    env: Any, tools: dict[str, Tool], action: CallTool, thread: TimedThread, timeout_s: float | None
) -> Observation:
    """Run one call; EpisodeFailed if a tool fails that is declared to end the episode.

    ``timeout_s`` is for tools that have no limit of their own.
    """
    name = action.tool_name
    try:
        tool = tools.get(name) if isinstance(name, str) else None
        if tool is None:
            names = ", ".join(list(tools)[:_MAX_NAMES]) or "none"
            message = f"there is no tool {str(name)[:_MAX_NAME_CHARS]!r}; the tools are: {names}"
            raise Failure("tool_not_found", message, fault=False)
        try:
            keywords = tool.read(action.arguments)
        except InvalidValue as error:
            raise Failure("invalid_args", f"{tool.name}: {error}", fault=False) from None
        limit_s = timeout_s if tool.options.timeout_s == "default" else tool.options.timeout_s
        return _observe(tool, _run(name, partial(tool.function, env, **keywords), thread, limit_s))
    except Failure as failure:
        words = failure.error.message
        if failure.fault and tools[name].options.on_error == "end":
            raise EpisodeFailed(f"{words}.") from failure.__cause__
        shortened = _unicode(str(name)[:_MAX_NAME_CHARS])
        return Observation(tool_name=shortened, content=[Text(words)], error=failure.error)


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _run(name: str, call: Callable[[], Any], thread: TimedThread, timeout_s: float | None) -> Any:
    try:
        return thread.run(call, timeout_s)
    except TookTooLong as error:
        raise Failure("timeout", f"{name} timed out: {error}", fault=True) from None
    except ToolFailed as error:
        raise Failure("execution_error", str(error), fault=False) from None
    except (EpisodeFailed, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: it is the tool that ends, not this process
        LOG.warning("the tool %s failed", name, exc_info=error)
        raise Failure("execution_error", f"{name} failed: {type(error).__name__}", fault=True) from error


def _observe(tool: Tool, result: Any) -> Observation:
    """Turn a tool's result into an observation, if it is what the tool declares and not too long."""
    try:
        plain, content = tool.to_plain_and_content(result)
    except (InvalidValue, TypeError, ValueError, RecursionError) as error:
        LOG.warning("the tool %s did not return what it declares: %s", tool.name, error)
        kind = type(result).__name__
        message = f"{tool.name} failed: it returned {kind}, which is not what it declares"
        raise Failure("execution_error", message, fault=True) from error
    size = sum(len(block.text) for block in content if isinstance(block, Text))
    if size > tool.options.most_chars:
        message = f"{tool.name} failed: its result has {size} characters, at most {tool.options.most_chars} are allowed"
        raise Failure("execution_error", message, fault=True)
    return Observation(tool_name=tool.name, result=plain, content=content)


# ── Signatures: annotations as two spaces, of the arguments by name and of the result. Defaults stay unchecked. ──


_NO_DEFAULT = inspect.Parameter.empty
_IMMUTABLE = (bool, int, float, str, type(None))
_UNNAMED_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
    inspect.Parameter.POSITIONAL_ONLY: "positional-only ",
}


class Field(NamedTuple):
    """An argument. ``default`` is ``inspect.Parameter.empty`` if it has none."""

    name: str
    hint: Any
    default: Any = _NO_DEFAULT
    description: str = ""


class Tool:
    """A method of the class ``owner`` as callers see it, and how its calls are read. InvalidTool says what is wrong."""

    def __init__(self, name: str, function: Callable[..., Any], owner: str) -> None:
        self.name, self.function = name, function
        self.options: ToolOptions = getattr(function, _MARK)
        self._place = f"{owner}.{function.__name__}"
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except Exception as error:  # a name that does not exist, or whatever evaluating an annotation raises
            raise InvalidTool(f"{self._place}: its annotations can't be evaluated: {error}.") from error
        docstring = read_docstring(function.__doc__)
        fields = self._fields(function, hints, docstring)
        self._arguments = self._space("Arguments", fields)
        self._names = tuple(field.name for field in fields)
        if "return" not in hints:
            raise InvalidTool(f"{self._place} does not say what it returns; write `-> str`, or `-> Any`.")
        self._returns = hints["return"]
        self.gives_content = self._returns is not Any and _mentions(self._returns, (Text, Image))
        self._result = None if self.gives_content else self._space("Result", [Field("result", self._returns)])
        output_schema: dict[str, Any] | None = None  # if any value may come
        if self._result is not None:
            schema = _object_schema(self._result)
            own = {key: item for key, item in schema["properties"]["result"].items() if key != "title"}
            if own:
                output_schema = {**own, "$defs": schema["$defs"]} if "$defs" in schema else own
        self.info = ToolInfo(name, docstring.text, _object_schema(self._arguments), output_schema)

    def read(self, arguments: Any) -> dict[str, Any]:
        """Return the keywords for the function; InvalidValue names the argument that is wrong."""
        if not self._names and not arguments:
            return {}
        record = self._arguments.validate(arguments)
        return {name: getattr(record, name) for name in self._names}

    def to_plain(self, result: Any) -> Any:
        """Return a result of the function as JSON data; InvalidValue if it is not what the function declares."""
        if self._result is None or (self._returns is str and type(result) is str and result.isascii()):
            return result
        (record,) = self._result.records
        if is_pydantic(record):
            return self._result.to_plain({"result": result})["result"]
        return self._result.to_plain(record(result=result))["result"]

    def to_plain_and_content(self, result: Any) -> tuple[Any, list[Text | Image]]:
        """Return the result as plain data, and as content. A tool that returns content has no plain data."""
        parts = result if isinstance(result, (list, tuple)) else [result]
        if self.gives_content or any(isinstance(part, (Text, Image)) for part in parts):
            return None, check_blocks(result)
        plain = self.to_plain(result)
        if plain is None:
            return None, []
        return plain, [Text(plain if type(plain) is str else msgspec.json.encode(plain).decode())]

    def _fields(self, function: Callable[..., Any], hints: dict[str, Any], docstring: Docstring) -> list[Field]:
        owner, *parameters = inspect.signature(function).parameters.values() or (None,)
        if owner is None or owner.kind not in (owner.POSITIONAL_ONLY, owner.POSITIONAL_OR_KEYWORD):
            raise InvalidTool(f"{self._place} takes no `self`: a tool is a method of its environment.")
        for parameter in parameters:
            if parameter.kind in _UNNAMED_KINDS:
                raise InvalidTool(
                    f"{self._place}: a model passes every argument by name, so a tool can't have "
                    f"{_UNNAMED_KINDS[parameter.kind]}{parameter.name}; name each argument, or take a list or a dict."
                )
            if parameter.name not in hints:
                raise InvalidTool(
                    f"{self._place}: argument {parameter.name!r} has no type, and calls are checked by it; write "
                    f"`{parameter.name}: int`, for example."
                )
        names = [parameter.name for parameter in parameters]
        unknown = [name for name in docstring.arguments if name not in names]
        if unknown:
            raise InvalidTool(
                f"{self._place}: its docstring has an argument {unknown[0]!r} that its signature does not have."
            )
        return [
            Field(one.name, hints[one.name], one.default, docstring.arguments.get(one.name, "")) for one in parameters
        ]

    def _space(self, name: str, fields: list[Field]) -> Struct[Any]:
        try:
            if any(_mentions_pydantic(field.hint) for field in fields):
                return Struct(_model(name, fields))
            return Struct(_struct(name, fields))
        except (InvalidSpace, TypeError, ValueError) as error:
            words = str(error).replace(f"{name}.", "", 1)
            raise InvalidTool(f"{self._place}: {words}.") from error


def _struct(name: str, fields: list[Field]) -> type:
    members: list[Any] = []
    for field in fields:
        hint, default = field.hint, field.default
        if field.description:
            hint = Annotated[hint, msgspec.Meta(description=field.description)]
        if default is _NO_DEFAULT:
            members.append((field.name, hint))
        elif type(default) in _IMMUTABLE:
            members.append((field.name, hint, default))
        else:
            members.append((field.name, hint, msgspec.field(default_factory=partial(deepcopy, default))))
    return msgspec.defstruct(name, members, kw_only=True)


def _model(name: str, fields: list[Field]) -> Any:
    import pydantic

    members: dict[str, Any] = {}
    for field in fields:
        default = ... if field.default is _NO_DEFAULT else field.default
        members[field.name] = (field.hint, pydantic.Field(default, description=field.description or None))
    return pydantic.create_model(name, __config__={"arbitrary_types_allowed": True}, **members)


def _mentions(hint: Any, wanted: tuple[Any, ...]) -> bool:
    return hint in wanted or any(_mentions(part, wanted) for part in typing.get_args(hint))


def _mentions_pydantic(hint: Any) -> bool:
    return is_pydantic(hint) or any(map(_mentions_pydantic, typing.get_args(hint)))


def _object_schema(space: Struct[Any]) -> dict[str, Any]:
    """Return the schema of a Struct with its fields at the top, where every trainer looks, and no others allowed."""
    schema = dict(space.described)
    definitions = dict(schema.pop("$defs", {}))
    if "$ref" in schema:
        schema = dict(definitions.pop(schema["$ref"].rpartition("/")[2]))
    schema.pop("title", None)
    schema = {"type": "object", "properties": {}, "required": [], **schema, "additionalProperties": False}
    return {**schema, "$defs": definitions} if definitions else schema


# ── Docstrings in Google's style. Types in them, as in ``number (int): ...``, are ignored: the signature has them. ──


_ARGUMENTS = frozenset({"args", "arguments", "parameters", "params"})
_SECTIONS = _ARGUMENTS | {"returns", "return", "raises", "yields", "example", "examples", "note", "notes"}
_HEAD = re.compile(r"(\w+)\s*:\s*$")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


class Docstring(NamedTuple):
    """``text`` is everything before the first section."""

    text: str
    arguments: dict[str, str]


def read_docstring(docstring: str | None) -> Docstring:
    """Read the parts of a docstring that a model needs. Only indentation tells where a part ends.

    >>> read_docstring('''Guess.
    ...
    ...     Args:
    ...         number: between 1
    ...             and 10.
    ...     ''')
    Docstring(text='Guess.', arguments={'number': 'between 1 and 10.'})
    """
    text: list[str] = []
    arguments: dict[str, str] = {}
    for head, lines in _sections(inspect.cleandoc(docstring or "").splitlines()):
        if head in _ARGUMENTS:
            arguments.update(_entries(lines))
        elif not head:
            text = lines
    return Docstring("\n".join(text).strip(), arguments)


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each section's name in lower case, with its lines; the lines before the first have an empty name."""
    head, section = "", list[str]()
    for line in lines:
        match = _HEAD.match(line)
        if match is not None and match[1].lower() in _SECTIONS:
            yield head, section
            head, section = match[1].lower(), []
        else:
            section.append(line)
    yield head, section


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield names with their texts. The first line sets the indentation of names; deeper lines continue a text."""
    name, words, depth = "", list[str](), None
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        match = _ENTRY.match(line.strip()) if indent <= depth else None
        if match is None:
            words.append(line.strip())
            continue
        if name:
            yield name, " ".join(filter(None, words))
        name, words = match[1], [match[2]]
    if name:
        yield name, " ".join(filter(None, words))
