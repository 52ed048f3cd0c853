"""An environment's FastMCP session, open as long as the environment, and calls of tools that skip its transport.

OpenEnv keeps this session open, too. Within one process its two ends write and read JSON for each other, and check the
schema of a tool's output again at each call; that takes five times as long as most tools. A call goes to the server's
own handler instead. Everything else is FastMCP's: middleware, checks of arguments and results, errors, contexts.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

from paddock.hosting.private_loop import PrivateLoop


def let_servers_travel() -> None:
    """From now on pickles may hold FastMCP servers: their tools, which is all that an environment needs of them."""
    if "fastmcp" in sys.modules:
        from fastmcp import FastMCP

        copyreg.pickle(FastMCP, _take_apart)


def _take_apart(server: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    loop = PrivateLoop()
    try:
        tools = loop.run((getattr(server, "list_tools", None) or server.get_tools)())
    finally:
        loop.close()
    found = tools.values() if isinstance(tools, dict) else tools
    return _put_together, (server.name, server.instructions, [(one.fn, one.name, one.description) for one in found])


def _put_together(name: str, instructions: str | None, tools: list[tuple[Callable[..., Any], str, str | None]]) -> Any:
    from fastmcp import FastMCP

    server = FastMCP(name, instructions=instructions)
    for function, tool_name, description in tools:
        server.tool(function, name=tool_name, description=description)
    return server


async def open_session(environment: Any, stack: AsyncExitStack) -> None:
    """Open the session of an MCPEnvironment, until the stack is closed."""
    await stack.enter_async_context(environment.mcp_session())
    with suppress(ImportError, AttributeError, LookupError):  # not FastMCP 3 over mcp 1: slower, and otherwise the same
        await _skip_transport(environment.mcp_client.session, environment.mcp_server)


async def _skip_transport(session: Any, server: Any) -> None:
    from jsonschema.validators import validator_for
    from mcp.server.lowlevel.server import request_ctx
    from mcp.types import CallToolRequest, CallToolRequestParams, PingRequest
    from referencing import Registry

    handlers, schemas, validate = (
        server._mcp_server.request_handlers,
        session._tool_output_schemas,
        session._validate_tool_result,
    )
    validators: dict[str, tuple[Any, Any]] = {}  # by tool: its schema, and what checks by it
    contexts = []
    answer_ping = handlers[PingRequest]

    async def keep_context(request: Any) -> Any:
        contexts.append(request_ctx.get())
        return await answer_ping(request)

    # Tools may use the session: they log, or ask the client. A request's context has it.
    handlers[PingRequest] = keep_context
    try:
        await session.send_ping()
    finally:
        handlers[PingRequest] = answer_ping
    context, call_through = contexts[0], session.call_tool

    async def call_tool(name: str, arguments: Any = None, **options: Any) -> Any:
        if options.get("read_timeout_seconds") is not None or options.get("meta") is not None:
            return await call_through(name, arguments, **options)  # only the transport heeds these
        token = request_ctx.set(context)
        try:
            request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
            result = (await handlers[CallToolRequest](request)).root
        finally:
            request_ctx.reset(token)
        schema, validator = validators.get(name, (None, None))
        if result.isError or (
            validator is not None and schema is schemas.get(name) and validator.is_valid(result.structuredContent)
        ):
            return result
        await validate(name, result)
        if (schema := schemas.get(name)) is not None:
            validators[name] = schema, validator_for(schema)(schema, registry=Registry())
        return result

    session.call_tool = call_tool
