"""What a server says on ``/ws``, byte for byte as OpenEnv's does. ``form`` is "0.10" or "0.3", which lost metadata."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from paddock.hosting.openenv.requests import CAPACITY_REACHED, FACTORY_ERROR, WireError
from paddock.hosting.openenv.strict_json import dump

Form: TypeAlias = Literal["0.10", "0.3"]


def observation_data(observation: dict[str, Any], form: Form = "0.10") -> dict[str, Any]:
    """An OpenEnv observation, all of its fields, as the ``data`` of a frame."""
    hidden = ("reward", "done") if form == "0.10" else ("reward", "done", "metadata")
    data = {
        "observation": {key: value for key, value in observation.items() if key not in hidden},
        "reward": observation.get("reward"),
        "done": observation.get("done", False),
    }
    if form == "0.10" and observation.get("metadata"):
        data["metadata"] = observation["metadata"]
    return data


def observation_frame(data: dict[str, Any]) -> str:
    """The answer to reset and step; ``data`` from ``observation_data`` or ``gym_form.outcome_data``."""
    return _frame("observation", data)


def state_frame(data: dict[str, Any]) -> str:
    """The answer to state."""
    return _frame("state", data)


def mcp_frame(answer: dict[str, Any]) -> str:
    """The answer to a JSON-RPC request on ``/ws``."""
    return _frame("mcp", answer)


def error_frame(error: WireError) -> str:
    """The answer to what could not be done."""
    data: dict[str, Any] = {"message": error.message, "code": error.code, **error.extra}
    if error.errors is not None:
        data["errors"] = error.errors
    return _frame("error", data)


def at_capacity(active: int, most: int, why: str) -> WireError:
    """To be sent before a connection is closed because there is no room for another session.

    ``why``: told in place of OpenEnv's words, where there is room, but none for this client.
    """
    full = f"Server at capacity: {active}/{most} sessions active. Cannot accept new connections."
    message = full if active >= most else why
    return WireError(CAPACITY_REACHED, message, extra={"active_sessions": active, "max_sessions": most}, closes=True)


def factory_failed(name: str) -> WireError:
    """To be sent before a connection is closed because its environment could not be made."""
    message = f"Environment factory '{name}' failed to create instance."
    return WireError(FACTORY_ERROR, message, extra={"factory_name": name}, closes=True)


def _frame(kind: str, data: dict[str, Any]) -> str:
    return dump({"type": kind, "data": data}).decode()
