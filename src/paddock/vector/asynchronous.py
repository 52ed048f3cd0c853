"""AsyncVectorEnv: Gymnasium's surface for lanes in worker processes; one process a lane unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.vector_env import AutoresetMode, OnFault
from paddock.errors import InvalidLanes, NoAsyncCallError
from paddock.hosting import messages as m
from paddock.hosting.launch import start_by
from paddock.spaces import Space
from paddock.vector.processes import ProcessVectorEnv, Result
from paddock.vector.timed_out import TimedOut

T = TypeVar("T")


class AsyncState(Enum):
    """What an AsyncVectorEnv waits for."""

    DEFAULT = "default"
    WAITING_RESET = "reset"
    WAITING_STEP = "step"
    WAITING_CALL = "call"


class AsyncVectorEnv(ProcessVectorEnv[ObsType, ActType]):
    """n environments, made by ``env_fns``, each in a process of its own (or several in each of ``workers`` processes).

    ``context`` is multiprocessing's start method; the default forks on Linux, so that workers know what this process
    has registered. ``shared_memory`` is accepted and needs no choice: values of fixed size are always shared, others
    travel in frames. ``worker`` (Gymnasium's loop over a pipe of pickles) is refused: nothing is pickled on the way
    back. After a timeout, and after a lane has failed, the environment goes on; see ``faults``.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Env[Any, Any]]],
        shared_memory: bool = True,
        copy: bool = True,
        context: str | None = None,
        daemon: bool = True,
        worker: Callable[..., None] | None = None,
        observation_mode: str | tuple[Space[Any], Space[Any]] = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_concurrency: int | None = None,
        *,
        workers: int | None = None,
        on_fault: OnFault = "raise",
        deadline_s: float | None = None,
        batch_size: int | None = None,
    ) -> None:
        if worker is not None:
            raise InvalidLanes(
                "worker= is a loop over Gymnasium's pickles, which no process of paddock reads. "
                "Put what it does into the environment, or into a wrapper around it."
            )
        self.shared_memory = shared_memory
        super().__init__(
            env_fns,
            workers=len(env_fns) if workers is None else workers,
            copy=copy,
            observation_mode=observation_mode,
            autoreset_mode=autoreset_mode,
            on_fault=on_fault,
            deadline_s=deadline_s,
            max_concurrency=max_concurrency,
            batch_size=batch_size,
            launcher=start_by(context, daemon=daemon),
        )

    @property
    def processes(self) -> list[Any]:
        """The worker processes, as multiprocessing knows them."""
        return [worker.channel.child.process for worker in self._lanes.workers if worker.channel.child is not None]

    @property
    def _state(self) -> AsyncState:
        if self._pending is not None:
            return AsyncState(self._pending)
        return AsyncState.WAITING_STEP if self._lanes.waiting or self._lanes.ready else AsyncState.DEFAULT

    def reset_async(self, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> None:
        """Begin a reset; ``reset_wait`` brings its result."""
        self._begin_reset(seed, options)
        self._pending = "reset"

    def reset_wait(self, timeout: int | float | None = None) -> tuple[Any, Info]:
        """The result of ``reset_async``. multiprocessing.TimeoutError after ``timeout`` seconds."""
        self._check_waiting(AsyncState.WAITING_RESET, "reset_async", "reset_wait")
        return self._in_time(self._end_reset, timeout, "reset")

    def step_async(self, actions: Any) -> None:
        """Begin a step; ``step_wait`` brings its result."""
        self._check_free("step")
        self.send(actions)

    def step_wait(self, timeout: int | float | None = None) -> Result:
        """The result of ``step_async``. multiprocessing.TimeoutError after ``timeout`` seconds."""
        self._check_waiting(AsyncState.WAITING_STEP, "step_async", "step_wait")
        return self._in_time(self._end_step, timeout, "step")

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Begin a call of each lane's attribute; ``call_wait`` brings the results."""
        self._begin_ask([m.Call(row, name, list(args), kwargs) for row in self._rows()])
        self._pending = "call"

    def call_wait(self, timeout: int | float | None = None) -> tuple[Any, ...]:
        """The results of ``call_async``. multiprocessing.TimeoutError after ``timeout`` seconds."""
        self._check_waiting(AsyncState.WAITING_CALL, "call_async", "call_wait")
        return self._in_time(self._end_ask, timeout, "call")

    def _check_waiting(self, state: AsyncState, begin: str, end: str) -> None:
        self._check_open()
        if self._state is not state:
            raise NoAsyncCallError(f"Calling `{end}` without any prior call to `{begin}`.", state.value)

    def _in_time(self, bring: Callable[[float | None], T], timeout: float | None, what: str) -> T:
        try:
            return bring(timeout)
        except TimedOut as error:
            text = f"The call to `{what}_wait` has timed out after {timeout} seconds: {error}"
            raise TimedOut(text, lane=error.lane) from None
