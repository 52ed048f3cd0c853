"""Player: one thread with one environment, for one rollout after another. Only this thread calls the environment.

But for its end: one elsewhere that the thread waits for in vain is ended from outside, which ends the waiting.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from paddock.agentic.rollouts.asking import OutOfTime
from paddock.agentic.rollouts.playing import Job, Playing
from paddock.agentic.rollouts.result import Failure, Rollout
from paddock.agentic.rollouts.supply import Supply
from paddock.core.env import Env
from paddock.errors import DeadlineExceeded, PaddockError
from paddock.hosting.client import HostedEnv
from paddock.record.trace.opening import Opening
from paddock.record.trace.writer import TraceWriter

if TYPE_CHECKING:
    from paddock.agentic.rollouts.crew import Crew

LOG = logging.getLogger("paddock.agentic")
_MOST_WORDS = 2000


class Player:
    """``given_up`` is set by the crew, under its lock: then this player's results count no more."""

    def __init__(self, crew: Crew, supply: Supply, trace: TraceWriter | None, name: str | None) -> None:
        self._crew, self._supply, self._trace, self._name = crew, supply, trace, name
        self._env: Env[Any, Any] | None = None
        self.playing: Playing | None = None
        self.by_s: float | None = None
        self.given_up = False
        self.thread = threading.Thread(target=self._run, name="paddock-rollout", daemon=True)

    def env(self) -> Env[Any, Any]:
        """The environment, made if there is none."""
        if self._env is None:
            self._env = self._supply.take()
        return self._env

    def abandon(self) -> None:
        """End the environment from outside. One in this process that is not idle can only end itself."""
        env, playing = self._env, self.playing
        idle = playing is not None and playing.leave()
        inner = None if env is None else env.unwrapped
        if isinstance(inner, HostedEnv):
            inner.abandon()
        elif env is not None and idle:
            self._supply.close(env)

    def _run(self) -> None:
        try:
            self._crew.prepare(self)
            while (job := self._crew.next_job(self)) is not None:
                rollout = self._play(job)
                if not self._crew.take_result(self, job, rollout):
                    break
        except BaseException as error:  # a bug, a full disk, KeyboardInterrupt in a policy: all end the whole
            self._crew.fail(error)
        finally:
            self._leave()

    def _play(self, job: Job) -> Rollout:
        playing = self.playing
        assert playing is not None
        try:
            env = self.env()
            playing.run(env, self._begun(env, job))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit and CancelledError too: one rollout ends, not all of them
            if playing.where == "trace" and isinstance(error, OSError):
                raise  # a full disk: no rollout's fault, and nothing to go on with
            LOG.info("the rollout %s failed", job.work.name, exc_info=error)
            failure = failure_of(error, playing)
            self._mend(error, playing)
            playing.end_episode(failure)
            return playing.rollout(failure)
        return playing.rollout()

    def _begun(self, env: Env[Any, Any], job: Job) -> Any:
        if self._trace is None:
            return None
        work = job.work
        opening = Opening.of(
            env, seed=work.seed, name=self._name, options=work.options, task=work.row or None,
            about={"attempt": job.attempt, "place": job.place},
        )  # fmt: skip
        return self._trace.begin(opening, number=job.number)

    def _mend(self, error: BaseException, playing: Playing) -> None:
        """Drop an environment that may not be in order; the next rollout gets another."""
        ours = playing.where in ("policy", "trace") or isinstance(error, OutOfTime)
        sound = ours or (isinstance(error, PaddockError) and error.session_alive)
        if not sound and not self._supply.lends:
            self._leave()

    def _leave(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            self._supply.close(env)


def failure_of(error: BaseException, playing: Playing) -> Failure:
    """An error as a rollout keeps it."""
    step = len(playing.rewards)
    if isinstance(error, OutOfTime):
        return out_of_time(playing)
    if isinstance(error, PaddockError):
        return Failure(error.code, _words(error), playing.where, step)
    code = "POLICY_ERROR" if playing.where == "policy" else "ENV_ERROR"
    return Failure(code, f"{type(error).__name__}: {_words(error)}", playing.where, step)


def out_of_time(playing: Playing) -> Failure:
    """A rollout that took too long."""
    seconds = time.monotonic() - playing.began_s
    message = f"It was not over after {seconds:.1f} s (in its {playing.where})."
    return Failure(DeadlineExceeded.code, message, "time", len(playing.rewards))


def _words(error: BaseException) -> str:
    try:
        return str(error)[:_MOST_WORDS]
    except Exception:  # __str__ is someone else's code
        return "(its message can't be shown)"
