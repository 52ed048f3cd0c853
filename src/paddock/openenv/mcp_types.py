"""OpenEnv's types for tools and JSON-RPC, field for field. Needs the extra ``openenv``, as all of its types do.

A tool that fails by itself is told in ``result``; ``error`` is for a call that came to nothing.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Literal

from paddock.openenv.types import Action, BaseMessage, Observation

from pydantic import BaseModel, ConfigDict, Field  # isort: skip  # after types, which says what to install

RESERVED_TOOL_NAMES = frozenset(("reset", "step", "state", "close"))


class JsonRpcErrorCode(int, Enum):
    """JSON-RPC's codes."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SERVER_ERROR = -32000


_WORDS = {
    JsonRpcErrorCode.PARSE_ERROR: "Parse error",
    JsonRpcErrorCode.INVALID_REQUEST: "Invalid Request",
    JsonRpcErrorCode.METHOD_NOT_FOUND: "Method not found",
    JsonRpcErrorCode.INVALID_PARAMS: "Invalid params",
    JsonRpcErrorCode.INTERNAL_ERROR: "Internal error",
    JsonRpcErrorCode.SERVER_ERROR: "Server error",
}


class McpMethod(str, Enum):
    """The methods for tools."""

    TOOLS_LIST = "tools/list"
    TOOLS_CALL = "tools/call"


class JsonRpcError(BaseModel):
    """Why a request has no result."""

    model_config = ConfigDict(extra="forbid")

    code: int
    message: str
    data: Any | None = None

    @classmethod
    def from_code(cls, code: JsonRpcErrorCode, message: str | None = None, data: Any = None) -> JsonRpcError:
        """An error with the usual words, where there are no others."""
        return cls(code=code.value, message=message or _WORDS[code], data=data)


class JsonRpcRequest(BaseModel):
    """A request."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = Field(default_factory=dict)
    id: str | int | None = None


class JsonRpcResponse(BaseModel):
    """Its answer, dumped with a result or an error, never both."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"] = "2.0"
    result: Any | None = None
    error: JsonRpcError | None = None
    id: str | int | None = None

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        """As it is sent."""
        told = {"result": self.result} if self.error is None else {"error": self.error.model_dump()}
        return {"jsonrpc": self.jsonrpc, "id": self.id, **told}

    def model_dump_json(self, **kwargs: Any) -> str:
        """As it is sent on the websocket ``/mcp``."""
        return json.dumps(self.model_dump())

    @classmethod
    def success(cls, result: Any, request_id: str | int | None = None) -> JsonRpcResponse:
        """What came of a request."""
        return cls(result=result, id=request_id)

    @classmethod
    def error_response(
        cls,
        code: JsonRpcErrorCode,
        message: str | None = None,
        data: Any = None,
        request_id: str | int | None = None,
    ) -> JsonRpcResponse:
        """Why nothing came of it."""
        return cls(error=JsonRpcError.from_code(code, message, data), id=request_id)


class Tool(BaseModel):
    """A tool as a client sees it."""

    model_config = ConfigDict(extra="forbid")

    name: str
    description: str
    input_schema: dict[str, Any]


class ToolErrorType(str, Enum):
    """What kind of failure it was."""

    EXECUTION_ERROR = "execution_error"
    INVALID_ARGS = "invalid_args"
    TRANSPORT_ERROR = "transport_error"
    TOOL_NOT_FOUND = "tool_not_found"
    TIMEOUT = "timeout"


class ToolError(BaseModel):
    """Why a call gave nothing."""

    model_config = ConfigDict(extra="forbid")

    error_type: ToolErrorType
    message: str


class ListToolsAction(Action):
    """Ask which tools there are; no reset is needed before."""

    type: Literal["list_tools"] = "list_tools"


class CallToolAction(Action):
    """Call a tool."""

    type: Literal["call_tool"] = "call_tool"
    tool_name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ListToolsObservation(Observation):
    """Which there are."""

    tools: list[Tool]


class CallToolObservation(Observation):
    """What a call gave."""

    tool_name: str
    result: Any = None
    error: ToolError | None = None


class WSMCPMessage(BaseMessage):
    """A client's frame with a JSON-RPC request."""

    type: Literal["mcp"] = "mcp"
    data: dict[str, Any]


class WSMCPResponse(BaseModel):
    """A server's frame with its answer."""

    model_config = ConfigDict(extra="forbid")

    type: str = "mcp"
    data: dict[str, Any]
