"""Play the episodes of a task and record each step: n compiled lanes at once, or single environments in threads.

An episode depends on its seed and the policy alone, never on which lane played it or what was played before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from typing import Any

import numpy as np

from paddock.agentic.chat import Conversation, refusal_text
from paddock.agentic.rollouts.episode import Streams, Turn
from paddock.bench.bundle import Task
from paddock.bench.log import TERMINATED, TRUNCATED, Array, LogWriter
from paddock.bench.plan import make_environment, needs_wall
from paddock.bench.policies import Choose, Maker
from paddock.bench.recording import LaneRecorder, LineRecorder, RowRecorder
from paddock.core.env import Env
from paddock.core.spec import EnvSpec
from paddock.core.vector_env import VectorEnv
from paddock.errors import PaddockError
from paddock.spaces.conform import conform

Job = tuple[int, int]  # number of the episode, its seed
OnEnd = Callable[[], None]
OnFailure = Callable[[int, BaseException], None]  # number of the episode, what was raised


class Player:
    """Plays episodes of one task into a log. ``on_end`` and ``on_failure`` are called from any thread."""

    def __init__(
        self,
        log: LogWriter,
        number: int,
        task: Task,
        maker: Maker,
        *,
        targets: dict[str, str] | None = None,
        isolation: str | None = None,
        on_end: OnEnd = lambda: None,
        on_failure: OnFailure = lambda number, error: None,
    ) -> None:
        self.log, self.number, self.task, self.maker = log, number, task, maker
        self.on_end, self.on_failure = on_end, on_failure
        self._where: Any = {"targets": targets, "isolation": isolation}

    def play(self, jobs: Sequence[Job], lanes: int) -> None:
        """Play all of these episodes. What the environment or policy raises is its episode's failure."""
        if not jobs:
            return
        lanes = min(lanes, len(jobs))
        if lanes > 1 and self.task.row is not None and not needs_wall(EnvSpec.from_json(self.task.spec)):
            with closing(make_environment(self.task, lanes, **self._where)) as env:
                _Lanes(env, self).play(jobs)  # type: ignore[arg-type]
        elif lanes > 1:
            self._play_in_threads(jobs, lanes)
        else:
            self._play_singly(iter(jobs))

    def _play_in_threads(self, jobs: Sequence[Job], count: int) -> None:
        waiting = deque(jobs)

        def left() -> Iterator[Job]:
            with suppress(IndexError):
                while True:
                    yield waiting.popleft()

        threads = ThreadPoolExecutor(count, "paddock-bench")
        try:
            for played in as_completed([threads.submit(self._play_singly, left()) for _ in range(count)]):
                played.result()
        finally:  # also after Ctrl-C: no other episode begins, and nobody waits for those that did
            waiting.clear()
            threads.shutdown(wait=False)

    def _play_singly(self, jobs: Iterable[Job]) -> None:
        env: Any = None
        try:
            for number, seed in jobs:
                if env is None:
                    env = make_environment(self.task, **self._where)
                if not self._play_one(env, number, seed):
                    env.close()  # what failed may be broken: the next episode begins in a new one
                    env = None
                self.on_end()
        finally:
            if env is not None:
                env.close()

    def _play_one(self, env: Env[Any, Any], number: int, seed: int) -> bool:
        """Play an episode, and return whether it ended well."""
        spaces = env.observation_space, env.action_space
        recorder: Any = (
            LineRecorder(self.log, number, spaces)
            if self.task.row is None
            else RowRecorder(self.log, number, self.task, spaces[0])
        )
        try:
            observation, info = env.reset(seed=seed)
        except Exception as error:
            recorder.begin(self.number, seed, None)
            recorder.end("failed", code_of(error))
            self.on_failure(number, error)
            return False
        recorder.begin(self.number, seed, observation)
        code: str | None = "POLICY_ERROR"
        choose: Any = None
        try:
            choose = self.maker(*spaces, seed)
            play = _converse if self.task.agentic else _act
            flags, code = play(env, choose, recorder, observation, info, seed, self.task.max_steps)
        except _EnvironmentFailed as failure:
            flags, code = 0, failure.code
            self.on_failure(number, failure.__cause__ or failure)
        except Exception as error:
            flags = 0
            self.on_failure(number, error)
        finally:
            if hasattr(choose, "close"):
                choose.close()
        if flags:
            recorder.end("complete" if flags & TERMINATED else "truncated", flags=flags)
        else:
            recorder.end("aborted" if code == "STEPS" else "failed", code)
        return code in (None, "STEPS", "POLICY_ERROR")


class _EnvironmentFailed(Exception):
    """The environment raised, not the policy. Its error is the cause."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def code_of(error: BaseException) -> str:
    """The code of an error that an environment raised."""
    return error.code if isinstance(error, PaddockError) else "ENV_ERROR"


Ending = tuple[int, str | None]  # the flags of the last step, and the code of what went wrong


def _act(env: Any, choose: Choose, recorder: Any, observation: Any, info: Any, seed: int, most: int) -> Ending:
    space = env.action_space
    for _ in range(most):
        action = conform(space, choose(observation))
        # Policy and environment may go on to change an array.
        kept = action.copy() if type(action) is np.ndarray else action
        try:
            observation, reward, terminated, truncated, _ = env.step(action)
            reward = float(reward)
        except Exception as error:
            raise _EnvironmentFailed(code_of(error)) from error
        recorder.step((kept, observation, reward))
        if terminated or truncated:
            return _flags(terminated, truncated), None
    return 0, "STEPS"


def _flags(terminated: Any, truncated: Any) -> int:
    return (TERMINATED if terminated else 0) | (TRUNCATED if truncated else 0)


def _converse(env: Any, choose: Choose, recorder: Any, observation: Any, info: Any, seed: int, most: int) -> Ending:
    """Play an environment of tools: the policy gets Turns, and may answer as a model does."""
    conversation = Conversation(env)
    now, reward, steps = conversation.begin(observation), None, 0
    streams = Streams(env, seed, attempt=0)
    for number in range(most):
        turn = Turn(
            observation=now,
            messages=list(conversation.messages),
            tools=list(conversation.tools),
            task=dict(info.get("task") or {}),
            number=number,
            step=steps,
            info=info,
            reward=reward,
            attempt=0,
            record=recorder.call,
            streams=streams,
        )
        reward = 0.0
        for request in conversation.read_answer(choose(turn)):
            if request.call is not None and request.call.problem is not None:
                conversation.reply(request, request.call.problem)
                continue
            try:
                observation, gain, terminated, truncated, info = env.step(request.action)
            except Exception as error:
                if (words := refusal_text(error)) is None or request.call is None:
                    raise _EnvironmentFailed(code_of(error)) from error
                conversation.reply(request, f"Error: {words}")
                continue
            recorder.step((request.action, observation, float(gain)))
            steps, reward = steps + 1, reward + float(gain)
            if terminated or truncated:
                return _flags(terminated, truncated), None
            now = conversation.add_observation(request, observation)
    return 0, "STEPS"


class _Lanes:
    """Episodes of a task in n lanes of paddock's own. Each lane takes the next episode when its own has ended."""

    def __init__(self, env: VectorEnv[Any, Any, Array], player: Player) -> None:
        self._env, self._player, self._lanes, task = env, player, env.num_envs, player.task
        space = env.single_observation_space
        self._recorder = LaneRecorder(player.log, player.number, task, space, self._lanes)
        self._policies: list[Any] = [None] * self._lanes
        dtype, shape = task.actions or ("", ())
        self._actions = np.zeros((self._lanes, *shape), dtype)
        self._actions[...] = env.single_action_space.sample()  # what held lanes have: any valid action

    def play(self, jobs: Sequence[Job]) -> None:
        waiting, recorder, env = iter(jobs), self._recorder, self._env
        observations = self._begin(waiting, np.ones(self._lanes, np.bool_), None)
        while any(number is not None for number in recorder.episodes):
            idle = np.array([number is None for number in recorder.episodes])
            self._choose(observations)
            if idle.any():
                env.hold(idle)
            before = [number is not None for number in recorder.episodes]
            observations, rewards, terminated, truncated, _ = env.step(self._actions)
            recorder.step(self._actions, observations, rewards, terminated, truncated)
            over = np.array([was and now is None for was, now in zip(before, recorder.episodes, strict=True)])
            for _ in range(int(over.sum())):
                self._player.on_end()
            if over.any():
                observations = self._begin(waiting, over, observations)

    def _begin(self, waiting: Iterator[Job], free: Array, observations: Any) -> Any:
        """Begin the next episodes in lanes that are free, as far as there are any."""
        jobs: dict[int, Job] = dict(zip(free.nonzero()[0].tolist(), waiting, strict=False))
        if not jobs:
            return observations
        observations = reset_lanes(self._env, {lane: seed for lane, (_, seed) in jobs.items()})
        spaces = self._env.single_observation_space, self._env.single_action_space
        for lane, (number, seed) in jobs.items():
            self._recorder.begin(lane, number, seed, observations)
            self._policies[lane] = self._player.maker(*spaces, seed)
        return observations

    def _choose(self, observations: Any) -> None:
        for lane, number in enumerate(self._recorder.episodes):
            if number is None:
                continue
            try:
                action = self._policies[lane](_row(observations, lane))
                self._actions[lane] = conform(self._env.single_action_space, action)
            except Exception as error:
                self._recorder.end(lane, "failed", "POLICY_ERROR")
                self._player.on_failure(number, error)
                self._player.on_end()


def reset_lanes(env: VectorEnv[Any, Any, Array], seeds: Mapping[int, int], *, every: bool = False) -> Any:
    """Reset the lanes in ``seeds``, each with its own, and return all observations. ``every``: the others, too."""
    mask = np.full(env.num_envs, every)
    mask[list(seeds)] = True
    own: Any = [seeds.get(lane) for lane in range(env.num_envs)]
    return env.reset(seed=own, options={"reset_mask": mask})[0]


def _row(observations: Any, lane: int) -> Any:
    if isinstance(observations, tuple):
        return tuple(_row(part, lane) for part in observations)
    if isinstance(observations, dict):
        return {key: _row(part, lane) for key, part in observations.items()}
    return observations[lane]
