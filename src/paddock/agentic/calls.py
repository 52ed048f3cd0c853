"""One call of a tool: arguments read, the method run, its result told. The agent learns of failures, never of secrets.

Of an exception only its type's name is told: its text may hold paths, answers or keys, and goes to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from paddock.agentic.actions import CallTool
from paddock.agentic.content import Image, Text, checked_blocks
from paddock.agentic.helper_thread import HelperThread, TookTooLong
from paddock.agentic.observations import ErrorType, Observation, ToolError
from paddock.agentic.tools import Tool
from paddock.errors import EpisodeFailed, InvalidValue, ToolFailed

LOG = logging.getLogger("paddock.agentic")
_MOST_WORDS = 4_000  # of an error that is told
_MOST_NAMES = 50
_NAME_CHARS = 60


class Failure(Exception):
    """Why a call has no result. ``fault``: it is the tool's, so ``on_error`` has a say."""

    def __init__(self, error_type: ErrorType, message: str, *, fault: bool) -> None:
        super().__init__(message)
        self.error = tool_error(error_type, message)
        self.fault = fault


def tool_error(error_type: ErrorType, message: str) -> ToolError:
    """What a model is told, cut to a length, and Unicode whatever the tool said."""
    return ToolError(error_type, _unicode(message[:_MOST_WORDS]))


def call_tool(
    env: Any, tools: dict[str, Tool], action: CallTool, thread: HelperThread, timeout_s: float | None
) -> Observation:
    """The observation of a call; EpisodeFailed where a tool fails that is declared to end the episode.

    ``timeout_s`` is for tools that have no limit of their own.
    """
    name = action.tool_name
    try:
        tool = _find(tools, name)
        keywords = _arguments(tool, action.arguments)
        own = tool.options.timeout_s
        limit = timeout_s if own == "default" else own
        return _told(tool, _run(name, partial(tool.function, env, **keywords), thread, limit))
    except Failure as failure:
        error = failure.error
        if failure.fault and tools[name].options.on_error == "end":
            raise EpisodeFailed(f"{error.message}.") from failure.__cause__
        return Observation(tool_name=_unicode(str(name)[:_NAME_CHARS]), content=[Text(error.message)], error=error)


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _find(tools: dict[str, Tool], name: Any) -> Tool:
    found = tools.get(name) if isinstance(name, str) else None
    if found is None:
        names = ", ".join(list(tools)[:_MOST_NAMES]) or "none"
        raise Failure(
            "tool_not_found", f"there is no tool {str(name)[:_NAME_CHARS]!r}; the tools are: {names}", fault=False
        )
    return found


def _arguments(tool: Tool, arguments: Any) -> dict[str, Any]:
    try:
        return tool.signature.read(arguments)
    except InvalidValue as error:
        raise Failure("invalid_args", f"{tool.name}: {error}", fault=False) from None


def _run(name: str, call: Callable[[], Any], thread: HelperThread, timeout_s: float | None) -> Any:
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


def _told(tool: Tool, result: Any) -> Observation:
    try:
        plain, content = _read(tool, result)
    except (InvalidValue, TypeError, ValueError, RecursionError) as error:
        LOG.warning("the tool %s returned what it does not declare: %s", tool.name, error)
        kind = type(result).__name__
        message = f"{tool.name} failed: it returned {kind}, which is not what it declares"
        raise Failure("execution_error", message, fault=True) from error
    size = sum(len(block.text) for block in content if isinstance(block, Text))
    if size > tool.options.most_chars:
        message = f"{tool.name} failed: its result has {size} characters, at most {tool.options.most_chars} are allowed"
        raise Failure("execution_error", message, fault=True)
    return Observation(tool_name=tool.name, result=plain, content=content)


def _read(tool: Tool, result: Any) -> tuple[Any, list[Text | Image]]:
    """The result as plain data, and as content; what is content already has no other form."""
    if tool.signature.gives_content or _is_content(result):
        return None, checked_blocks(result)
    plain = tool.signature.plain(result)
    if plain is None:
        return None, []
    if type(plain) is str:
        return plain, [Text(plain)]
    return plain, [Text(msgspec.json.encode(plain).decode())]


def _is_content(result: Any) -> bool:
    if isinstance(result, (list, tuple)):
        return any(isinstance(part, (Text, Image)) for part in result)
    return isinstance(result, (Text, Image))
