"""SyncEnvClient: an EnvClient for plain code, also where an event loop runs. A subclass's coroutines are run."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Generic

from paddock.hosting.private_loop import PrivateLoop
from paddock.openenv.client import ActT, EnvClient, ObsT, StateT, StepResult

if TYPE_CHECKING:
    from typing_extensions import Self


class SyncEnvClient(Generic[ActT, ObsT, StateT]):
    """The same client, waiting. Attributes that are not here are those of the client."""

    def __init__(self, async_client: EnvClient[ActT, ObsT, StateT]) -> None:
        if async_client._kind == "async" and async_client._line is not None:
            raise RuntimeError("This client is connected in async code. disconnect() it there, or make another one.")
        async_client._kind = "sync"
        self._client = async_client
        self._loop = PrivateLoop()

    @property
    def async_client(self) -> EnvClient[ActT, ObsT, StateT]:
        """The client that this one is for."""
        return self._client

    def connect(self) -> Self:
        """Connect now rather than at the first call."""
        self._client._connect()
        return self

    def disconnect(self) -> None:
        """End the session."""
        self._client._disconnect()

    def reset(self, **kwargs: Any) -> StepResult[ObsT]:
        """Begin an episode."""
        return self._client.reset(**kwargs)  # type: ignore[no-any-return]

    def step(self, action: ActT, **kwargs: Any) -> StepResult[ObsT]:
        """Advance by one action."""
        return self._client.step(action, **kwargs)  # type: ignore[no-any-return]

    def state(self) -> StateT:
        """The state of the episode."""
        return self._client.state()  # type: ignore[no-any-return]

    def new_session(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """Another session with the same server."""
        return SyncEnvClient(self._client.new_session())

    def close(self) -> None:
        """End the session and what a provider started. Safe to call twice."""
        try:
            self._client._close()
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name in ("_client", "_loop"):  # not made yet
            raise AttributeError(name)
        found = getattr(self._client, name)
        if not inspect.iscoroutinefunction(found):
            return found

        @functools.wraps(found)
        def waiting(*args: Any, **kwargs: Any) -> Any:
            self._client._bridged = True
            try:
                return self._loop.run(found(*args, **kwargs))
            finally:
                self._client._bridged = False

        return waiting
