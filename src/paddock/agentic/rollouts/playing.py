"""One rollout, from reset to its end, in an environment that is ready for it. It keeps no error to itself.

``where`` says whose code runs, so that whoever catches an error knows whom it is of.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.agentic.chat_form import refused
from paddock.agentic.rollouts.asking import Asking, OutOfTime
from paddock.agentic.rollouts.conversation import Asked, Conversation
from paddock.agentic.rollouts.result import Failure, Rollout, Where
from paddock.agentic.rollouts.turn import Turn
from paddock.agentic.rollouts.work import Work
from paddock.core.env import Env, Info
from paddock.errors import PaddockError
from paddock.record.trace.writer import EpisodeWriter
from paddock.seeding import derived_seed
from paddock.spaces import Space

_ACTION_STREAM, _POLICY_STREAM = 0, 1


@dataclass(frozen=True)
class Job:
    """An attempt at a task; ``number`` is its place among the results."""

    number: int
    place: int
    attempt: int
    work: Work


class Playing:
    """What happened so far in one rollout."""

    def __init__(self, job: Job, asking: Asking, *, max_turns: int | None, by_s: float | None) -> None:
        self.job, self._asking, self._max_turns, self._by_s = job, asking, max_turns, by_s
        self.where: Where = "making"
        self.began_s = time.monotonic()
        self.rewards: list[float] = []
        self.turns = 0
        self.over = (False, False)
        self.info: Info = {}
        self.episode: EpisodeWriter | None = None
        self._talk: Conversation | None = None
        self._gate = threading.Lock()
        self._left = False

    def leave(self) -> bool:
        """Nothing of this rollout may begin any more; whether its environment is idle. From any thread."""
        with self._gate:
            self._left = True
            return self.where == "policy"

    def _enter(self, where: Where) -> None:
        """Whose code runs from here on; OutOfTime if the rollout was left or its time is over."""
        with self._gate:
            if self._left or (self._by_s is not None and time.monotonic() >= self._by_s):
                raise OutOfTime
            self.where = where

    def run(self, env: Env[Any, Any], episode: EpisodeWriter | None) -> None:
        """Play to the end. Raises whatever policy, environment or trace raise, and OutOfTime."""
        work, self.episode = self.job.work, episode
        streams = [
            derived_seed(work.seed, self.job.attempt * 2 + stream) for stream in (_ACTION_STREAM, _POLICY_STREAM)
        ]
        actions = deepcopy(env.action_space)  # environments of a kind may share one, and its stream
        actions.seed(streams[0])
        np_random = np.random.default_rng(streams[1])
        self._talk = talk = Conversation(env)
        self._enter("reset")
        observation, self.info = env.reset(seed=work.seed, options=work.options)
        self._record(lambda into: into.reset(observation, self.info))
        self._observed, reward = talk.begin(observation), None
        while not any(self.over) and (self._max_turns is None or self.turns < self._max_turns):
            self._enter("policy")
            turn = self._turn(actions, talk, np_random, reward)
            wanted = talk.asked(self._asking.ask(turn, self._by_s))
            self.turns += 1
            before = len(self.rewards)
            for asked in wanted:
                self._carry_out(env, talk, asked)
            reward = float(sum(self.rewards[before:]))
        self._record(lambda into: into.end())

    def _turn(self, actions: Space[Any], talk: Conversation, rng: np.random.Generator, reward: float | None) -> Turn:
        return Turn(
            observation=self._observed,
            messages=list(talk.messages),
            tools=list(talk.tools),
            task=self.job.work.row,
            number=self.turns,
            step=len(self.rewards),
            info=self.info,
            reward=reward,
            attempt=self.job.attempt,
            action_space=actions,
            np_random=rng,
        )

    def _carry_out(self, env: Env[Any, Any], talk: Conversation, asked: Asked) -> None:
        if any(self.over):
            talk.answer(asked, "The episode is over.")
            return
        if asked.call is not None and asked.call.problem is not None:
            talk.answer(asked, asked.call.problem)
            return
        self._enter("step")
        try:
            observation, reward, terminated, truncated, info = env.step(asked.action)
        except Exception as error:
            if (words := refused(error)) is None:
                raise
            self.where = "policy"
            if asked.call is None:
                raise
            talk.answer(asked, f"Error: {words}")  # arguments that a model wrote: it may try again
            return
        self.over, self.info = (bool(terminated), bool(truncated)), info
        self._record(lambda into: into.step(asked.action, observation, reward, terminated, truncated, info))
        self.rewards.append(float(reward))
        self._observed = talk.told(asked, observation)

    def _record(self, write: Callable[[EpisodeWriter], None]) -> None:
        if self.episode is not None:
            self.where = "trace"
            write(self.episode)

    def end_episode(self, failure: Failure) -> None:
        """The trace's last word on a rollout that failed, if it is not said yet."""
        if self.episode is not None:
            with suppress(PaddockError):
                self.episode.end((failure.code, failure.message))

    def rollout(self, error: Failure | None = None) -> Rollout:
        """What came of it so far."""
        work = self.job.work
        return Rollout(
            place=self.job.place,
            name=work.name,
            task=work.row,
            attempt=self.job.attempt,
            seed=work.seed,
            rewards=tuple(self.rewards),
            terminated=self.over[0],
            truncated=self.over[1],
            turns=self.turns,
            messages=[] if self._talk is None else list(self._talk.messages),
            info=self.info,
            error=error,
            seconds=time.monotonic() - self.began_s,
        )
