"""GenericEnvClient: actions, observations and states as dicts. Needs neither pydantic nor the environment's package."""

from __future__ import annotations

from typing import Any

from paddock.openenv.client import EnvClient, StepResult

Record = dict[str, Any]


class GenericAction(Record):
    """A dict made of keywords, to say in code that this is an action.

    >>> GenericAction(code="print(1)")
    GenericAction(code='print(1)')
    """

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)

    def __repr__(self) -> str:
        return f"GenericAction({', '.join(f'{name}={value!r}' for name, value in self.items())})"


class GenericEnvClient(EnvClient[Record, Record, Record]):
    """A client for any server; actions may be dicts, pydantic models or objects with attributes."""

    def _step_payload(self, action: Any) -> Record:
        if isinstance(action, dict):
            return action
        if hasattr(action, "model_dump"):
            return action.model_dump()  # type: ignore[no-any-return]
        return dict(vars(action)) if hasattr(action, "__dict__") else dict(action)

    def _parse_result(self, payload: Record) -> StepResult[Record]:
        return StepResult(
            payload.get("observation", {}), payload.get("reward"), payload.get("done", False), payload.get("metadata")
        )

    def _parse_state(self, payload: Record) -> Record:
        return payload
