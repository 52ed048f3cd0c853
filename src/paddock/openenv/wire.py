"""OpenEnv's wire under one name. It lives in ``paddock.hosting.openenv``, which the server may import."""

from __future__ import annotations

from paddock.hosting.openenv import about, frames, gym_form, http_bodies, json_rpc
from paddock.hosting.openenv.frames import error_frame, mcp_frame, observation_data, observation_frame, state_frame
from paddock.hosting.openenv.requests import (
    CloseRequest,
    McpRequest,
    ResetRequest,
    StateRequest,
    StepRequest,
    WireError,
    parse_request,
)
from paddock.hosting.openenv.strict_json import NotJson, dump, parse
from paddock.hosting.openenv.translate import Translator

__all__ = [
    "CloseRequest",
    "McpRequest",
    "NotJson",
    "ResetRequest",
    "StateRequest",
    "StepRequest",
    "Translator",
    "WireError",
    "about",
    "dump",
    "error_frame",
    "frames",
    "gym_form",
    "http_bodies",
    "json_rpc",
    "mcp_frame",
    "observation_data",
    "observation_frame",
    "parse",
    "parse_request",
    "state_frame",
]
