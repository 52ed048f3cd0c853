"""Verify a bundle: who signed it, and by replay whether the environments answer as the record says.

The level says what was shown, and never more. ``docs/bench.md`` has the table of levels.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import count, groupby
from math import comb
from pathlib import Path
from typing import Any, Literal

import numpy as np

from paddock.bench.bundle import ORIGINS, Bundle, Task, read_bundle
from paddock.bench.log import Array, Episode, Log, LogWriter, read_lines, read_log
from paddock.bench.plan import code_digest, describe_form, make_environment, needs_wall, place_of, read_platform
from paddock.bench.play import Player, reset_lanes
from paddock.bench.policies import PolicySource
from paddock.bench.recording import LineRecorder, batch_packer, leaves_of, observation_packer
from paddock.core.env import Env
from paddock.core.registry import registry
from paddock.core.spec import EnvSpec
from paddock.core.vector_env import VectorEnv
from paddock.errors import InvalidBundle, PaddockError, PlanError, Untrusted
from paddock.record.digest import environment_digest
from paddock.record.trace.values import member, unfold
from paddock.trust.keys import PublicKey

Level = Literal["L0", "L1", "L2", "L2+", "L3", "T"]
_LANES = 256
_GROUP_BYTES = 1 << 23  # of the record in memory at once


@dataclass(frozen=True)
class Verdict:
    """What was shown. ``reason`` is None for what verifies; ``episode`` and ``step`` (0 is the reset) are the first
    that differ. ``replayed`` of ``episodes``; ``notes`` say what the level does not show.
    """

    level: Level
    reason: str | None
    message: str
    digest: str | None = None
    plan: str | None = None
    signer: str | None = None
    episodes: int = 0
    replayed: int = 0
    episode: int | None = None
    step: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checks:
    """What a verifier knows and wants. ``judge`` raises Untrusted for a key. ``plan`` and ``nonce``: what they must be;
    ``registered``: a ledger shows that the plan came before the run, with this nonce. ``policy``: to be replayed.
    ``on_replay`` is told how many episodes were replayed, and of how many.
    """

    judge: Callable[[PublicKey], None]
    sample: int | None = None
    plan: str | None = None
    nonce: str | None = None
    registered: bool = False
    policy: PolicySource | None = None
    targets: Mapping[str, str] | None = None
    isolation: str | None = None
    on_replay: Callable[[int, int], None] = lambda done, of: None


def verify_bundle(path: str | Path, checks: Checks) -> Verdict:
    """Verify the bundle at ``path``, which anyone may have written. The verdict says why it does not verify."""
    try:
        bundle = read_bundle(path)
    except InvalidBundle as error:
        return Verdict("L0", error.reason, str(error), episode=error.episode, step=error.step)
    names = [task.name for task in bundle.plan.tasks]
    if unknown := set(checks.targets or ()) - set(names):
        raise PlanError(
            f"--env {min(unknown)}=…: the bundle has no task of this name. It has: {', '.join(names)[:500]}"
        )
    known = Verdict(
        "L0", None, "", bundle.digest, bundle.plan_digest, bundle.start.signer, episodes=bundle.plan.episodes
    )
    try:
        try:
            checks.judge(PublicKey.parse(bundle.start.signer))
        except Untrusted as error:
            raise InvalidBundle(str(error), reason="untrusted") from error
        _check_expected(bundle, checks)
        known = replace(known, level="L1")
        sample = choose_sample(bundle, checks.sample)
        sample = [one for one in sample if bundle.plan.tasks[one.task].determinism == "exact"]
        total = len(sample) * (1 if checks.policy is None else 2)

        def tell(done: int) -> None:
            checks.on_replay(done, total)

        replayed = _replay(bundle, sample, checks, tell)
        if checks.policy is not None:
            _replay_policy(bundle, sample, checks, tell)
    except InvalidBundle as error:
        return replace(known, reason=error.reason, message=str(error), episode=error.episode, step=error.step)
    return _conclude(known, bundle, checks, replayed)


def _check_expected(bundle: Bundle, checks: Checks) -> None:
    if checks.plan is not None and checks.plan != bundle.plan_digest:
        raise InvalidBundle(
            f"This is a run of the plan {bundle.plan_digest}, and {checks.plan[:64]} is expected.", reason="tampered"
        )
    if checks.nonce is not None and checks.nonce != bundle.start.nonce:
        raise InvalidBundle("The run has another nonce than the one that was issued for it.", reason="tampered")
    if checks.policy is not None:
        ours, theirs = checks.policy.plan, bundle.plan.policy
        if ours.digest != theirs.digest or (ours.digest is None and ours.name != theirs.name):
            what = "digests" if ours.digest != theirs.digest else "names"
            raise InvalidBundle(
                f"The policy here is not the one of the record, {theirs.name!r}: their {what} differ.",
                reason="tampered",
            )


def _conclude(known: Verdict, bundle: Bundle, checks: Checks, replayed: int) -> Verdict:
    """The highest level that the checks which passed amount to, and what it leaves open."""
    notes = []
    transcripts = [task.name for task in bundle.plan.tasks if task.determinism == "none"]
    level: Level = "L2"
    if checks.registered or (checks.nonce is not None and bundle.start.origin == "challenge"):
        level = "L2+"
    else:
        ask = "; whoever issued it can check it with --nonce" if bundle.start.origin == "challenge" else ""
        notes.append(f"the nonce is {ORIGINS[bundle.start.origin]}: earlier attempts may have been discarded{ask}")
    if checks.policy is None:
        notes.append("actions are not attributed: they may come from another policy than the one named")
    elif bundle.plan.policy.digest is None:
        notes.append("the policy chose the same actions again, but has no digest: another may have its name")
    elif level == "L2+":
        level = "L3"
    else:
        notes.append("the policy was replayed with the same actions")
    if transcripts:
        level = "T"
        notes.append(f"signed transcripts, not replayed: {', '.join(transcripts)} can't be repeated")
    if not replayed and not transcripts:
        level = "L1"
    if 0 < replayed < known.episodes:
        some = max(1, known.episodes // 10)
        caught = 1 - comb(known.episodes - some, replayed) / comb(known.episodes, replayed)
        notes.append(f"a sample: if {some} episodes were false, it finds one with probability {caught:.2f}")
    failed = sum(episode.status in ("failed", "aborted") for episode in bundle.episodes)
    if failed:
        notes.append(f"{failed} episodes failed or were aborted; each counts as its task's failure value")
    if calls := sum(len(episode.calls) for episode in bundle.episodes):
        notes.append(f"{calls} calls of a model are in the record; nobody can repeat them")
    if bundle.log.abandoned:
        notes.append(f"{bundle.log.abandoned} attempts at an episode were interrupted and played again")
    return replace(known, level=level, message=f"verified at level {level}", replayed=replayed, notes=tuple(notes))


def choose_sample(bundle: Bundle, count: int | None) -> list[Episode]:
    """All episodes, or ``count`` of them as the bundle's digest has it: the same for everyone, and nobody's choice."""
    if count is None or count >= len(bundle.episodes):
        return bundle.episodes
    drawn = sorted(bundle.episodes, key=lambda one: hashlib.sha256(f"{bundle.digest} {one.number}".encode()).digest())
    return sorted(drawn[:count], key=lambda one: one.number)


# Replay


@dataclass(frozen=True)
class Difference:
    """The first step at which an environment does not answer as the record says."""

    episode: int
    step: int
    text: str

    def __str__(self) -> str:
        return f"episode {self.episode}, step {self.step}: {self.text}"


def _replay(bundle: Bundle, sample: Sequence[Episode], checks: Checks, tell: Callable[[int], None]) -> int:
    """Replay the sample, and return how many episodes that was. The first difference is an InvalidBundle."""
    done = 0
    for number, group in groupby(sample, key=lambda one: one.task):
        task, episodes = bundle.plan.tasks[number], list(group)
        try:
            _check_environment(task, checks)
            found = _replay_task(bundle, task, episodes, checks, done, tell)
            if found is not None:
                _blame(bundle, task, found, checks)
        except InvalidBundle:
            raise
        except Exception as error:  # paddock's own code raises anything, given the arguments of a stranger
            why = str(error) if isinstance(error, PaddockError) else f"{type(error).__name__}: {error}"
            raise InvalidBundle(
                f"The environment of the task {task.name!r} can't be made here: {why}", reason="irreproducible"
            ) from error
        done += len(episodes)
        tell(done)
    return done


def _check_environment(task: Task, checks: Checks) -> None:
    place, spec = place_of(task, checks.targets), EnvSpec.from_json(task.spec)
    code = code_digest(place)
    if code != task.package:
        raise InvalidBundle(
            f"The task {task.name!r} has other code than {place}: their digests differ.", reason="tampered"
        )
    with closing(make_environment(task, targets=checks.targets, isolation=checks.isolation)) as env:
        named = spec if place == spec.id and place in registry else env.spec
        if named is None or (code is None and environment_digest(named) != task.environment):
            raise InvalidBundle(
                f"The task {task.name!r} was run in another environment than its plan names: their digests differ.",
                reason="tampered",
            )
        for name, value in describe_form(env).items():  # type: ignore[arg-type]
            if getattr(task, name) != value:
                raise InvalidBundle(
                    f"The plan's {name} of the task {task.name!r} do not fit its environment.", reason="tampered"
                )


def _replay_task(
    bundle: Bundle,
    task: Task,
    episodes: Sequence[Episode],
    checks: Checks,
    done: int,
    tell: Callable[[int], None],
) -> Difference | None:
    where: Any = {"targets": checks.targets, "isolation": checks.isolation}
    with ExitStack() as stack:

        def make(num_envs: int | None = None) -> Any:
            return stack.enter_context(closing(make_environment(task, num_envs, **where)))

        env, lanes = make(), None
        if task.row is not None and not needs_wall(EnvSpec.from_json(task.spec)):
            lanes = _LaneReplay(bundle, task, make(min(_LANES, len(episodes))))
        for group in _groups(episodes, 0 if lanes is None else task.row.itemsize):  # type: ignore[union-attr]
            if lanes is None or len(group) == 1:
                found = _replay_one(bundle, task, env, group[0])
            else:
                found = lanes.find_difference(group)
            if found is not None:
                return found
            done += len(group)
            tell(done)
    return None


def _groups(episodes: Sequence[Episode], row_bytes: int) -> Iterator[list[Episode]]:
    """Episodes in groups whose rows fit into memory. One that does not, or has no rows, is alone."""
    group: list[Episode] = []
    steps = 0
    for episode in episodes:
        if group and (not row_bytes or (steps + episode.steps) * row_bytes > _GROUP_BYTES):
            yield group
            group, steps = [], 0
        group.append(episode)
        steps += episode.steps
    if group:
        yield group


def _blame(bundle: Bundle, task: Task, found: Difference, checks: Checks) -> None:
    """Say why a replay differs: another platform, an environment that does not repeat itself, or a false record."""
    here, there = read_platform(), bundle.start.platform
    if there.get("class") != here["class"]:
        other = next((name for name in here if there.get(name) != here[name]), "class")
        why = f"It was recorded with {other} {there.get(other, 'unknown')[:80]}, and this is {here[other]}."
        raise InvalidBundle(f"{found}. {why}", reason="irreproducible", episode=found.episode, step=found.step)
    episode = bundle.log.episodes[found.episode]
    for _ in range(2):
        with closing(make_environment(task, targets=checks.targets, isolation=checks.isolation)) as env:
            if _replay_one(bundle, task, env, episode) != found:  # type: ignore[arg-type]
                raise InvalidBundle(
                    f"{found}. The environment does not repeat itself: a second replay differs from the first.",
                    reason="irreproducible",
                    episode=found.episode,
                    step=found.step,
                )
    raise InvalidBundle(f"{found}.", reason="tampered", episode=found.episode, step=found.step)


class _LaneReplay:
    """Replays rows in n compiled lanes. All lanes step at once; each goes through episodes of its own."""

    def __init__(self, bundle: Bundle, task: Task, env: VectorEnv[Any, Any, Array]) -> None:
        assert task.row is not None
        self._bundle, self._task, self._env, self._lanes = bundle, task, env, env.num_envs
        self._pack = batch_packer(env.single_observation_space, task, self._lanes)
        self._got = np.zeros(self._lanes, task.row)
        self._began = False

    def find_difference(self, episodes: Sequence[Episode]) -> Difference | None:
        """The first difference in these episodes, in the order of their numbers."""
        text: list[bytes] = []
        self._resets: list[str | None] = []
        for begin, payloads in self._bundle.log.load(episodes):
            self._resets.append(begin.observation)
            text += payloads
        table = np.frombuffer(b"".join([*text, bytes(self._got.itemsize)]), self._got.dtype)
        self._bytes = table.view(np.uint8).reshape(len(table), -1)
        self._ends = np.cumsum([episode.steps for episode in episodes])
        self._episodes, self._next = episodes, 0
        self._now: list[int | None] = [None] * self._lanes
        self._at = np.full(self._lanes, len(table) - 1)  # of an idle lane: the row of zeros
        self._stop = np.full(self._lanes, -1)
        found: list[Difference] = []
        rows, env, got = table, self._env, self._got
        found += self._begin(np.ones(self._lanes, np.bool_))
        while (busy := self._stop >= 0).any():
            want = rows[self._at]
            if not busy.all():
                env.hold(~busy)
                want["action"][~busy] = want["action"][busy.argmax()]  # a valid one, which held lanes ignore
            observations, rewards, terminated, truncated, _ = env.step(want["action"])
            got["action"], got["reward"] = want["action"], rewards
            got["flags"] = terminated.view(np.uint8) | truncated.view(np.uint8) << 1
            got["observation"] = self._pack(observations)
            wrong = (got.view(np.uint8).reshape(self._lanes, -1) != self._bytes[self._at]).any(axis=1) & busy
            for lane in wrong.nonzero()[0].tolist():
                found.append(self._describe(lane, want[lane]))
            self._at[busy] += 1
            over = busy & (wrong | (self._at == self._stop))
            if over.any():
                found += self._begin(over)
        return min(found, key=lambda one: (one.episode, one.step), default=None)

    def _begin(self, free: Array) -> list[Difference]:
        """Begin the next episodes in the lanes that are free; returns the resets that differ."""
        found: list[Difference] = []
        while True:
            self._stop[free], self._at[free] = -1, len(self._bytes) - 1
            lanes: list[int] = free.nonzero()[0].tolist()
            jobs = dict(zip(lanes, range(self._next, len(self._episodes)), strict=False))
            if not jobs:
                return found
            self._next += len(jobs)
            seeds = {lane: self._episodes[job].seed for lane, job in jobs.items()}
            observed = self._pack(reset_lanes(self._env, seeds, every=not self._began))
            self._began = True
            free = np.zeros(self._lanes, np.bool_)
            for lane, job in jobs.items():
                episode = self._episodes[job]
                end = int(self._ends[job])
                self._now[lane], self._at[lane], self._stop[lane] = job, end - episode.steps, end
                if observed[lane].tobytes().hex() != self._resets[job]:
                    found.append(Difference(episode.number, 0, "the reset gives another observation than the record"))
                    free[lane] = True
                elif not episode.steps:
                    free[lane] = True
            if not free.any():
                return found

    def _describe(self, lane: int, want: Any) -> Difference:
        job = self._now[lane]
        assert job is not None
        episode = self._episodes[job]
        step = int(self._at[lane]) - (int(self._ends[job]) - episode.steps) + 1
        return Difference(
            episode.number,
            step,
            _row_difference(self._got[lane], want, self._env.single_observation_space, self._task),
        )


def _replay_one(bundle: Bundle, task: Task, env: Env[Any, Any], episode: Episode) -> Difference | None:
    """Replay one episode in one environment, step by step."""
    loading = bundle.log.load([episode])  # has the log open as long as it is here
    begin, payloads = next(loading)
    spaces = env.observation_space, env.action_space
    lines = LineRecorder(None, 0, spaces) if task.row is None else None  # type: ignore[arg-type]
    pack = observation_packer(spaces[0], task) if lines is None else None
    try:
        observation, _ = env.reset(seed=episode.seed)
    except Exception as error:
        return None if begin.observation is None else _raised(episode, 0, error)
    form = lines.form(observation) if lines else pack(observation).hex()  # type: ignore[misc]
    if form != begin.observation:
        return Difference(episode.number, 0, "the reset gives another observation than the record")
    step = 0
    for payload in payloads:
        wanted: Any = zip(*read_lines(payload), strict=True) if lines else np.frombuffer(payload, task.row)
        for want in wanted:
            step += 1
            try:
                action = member(spaces[1], unfold(want[0], _no_fetch)) if lines else _action(want["action"], spaces[1])
            except (ValueError, TypeError, AttributeError):
                return Difference(episode.number, step, "the record has an action that is not in the action space")
            try:
                observation, reward, terminated, truncated, _ = env.step(action)
            except Exception as error:
                return _raised(episode, step, error)
            flags = int(bool(terminated)) | int(bool(truncated)) << 1
            if lines:
                text = _line_difference(lines, want, observation, float(reward), flags)
            else:
                got = np.zeros((), task.row)
                got["action"], got["reward"], got["flags"] = want["action"], reward, flags
                got["observation"] = np.frombuffer(pack(observation), got["observation"].dtype)[0]  # type: ignore[misc]
                text = "" if got.tobytes() == want.tobytes() else _row_difference(got, want, spaces[0], task)
            if text:
                return Difference(episode.number, step, text)
    return None


def _action(value: Any, space: Any) -> Any:
    return value.copy() if value.shape else space.dtype.type(value)


def _raised(episode: Episode, step: int, error: Exception) -> Difference:
    return Difference(episode.number, step, f"the environment raises {type(error).__name__}, the record has a result")


def _no_fetch(reference: Any) -> Array:
    raise ValueError("an array beside the record")


_FLAGS = ("goes on", "terminates", "truncates", "terminates and truncates")


def _line_difference(lines: LineRecorder, want: Any, observation: Any, reward: float, flags: int) -> str:
    import json

    _, form, gain, ended = want
    if text := _result_difference((reward, flags), (gain, ended)):
        return text
    same = lines.form(observation) == json.dumps(form, sort_keys=True, separators=(",", ":"))
    return "" if same else "the environment gives another observation than the record"


def _result_difference(got: tuple[float, int], want: tuple[float, int]) -> str:
    if np.float64(got[0]).tobytes() != np.float64(want[0]).tobytes():
        return f"the environment gives reward {got[0]!r}, the record says {want[0]!r}"
    return "" if got[1] == want[1] else f"the environment {_FLAGS[got[1]]}, the record says that it {_FLAGS[want[1]]}"


def _row_difference(got: Any, want: Any, space: Any, task: Task) -> str:
    """What differs, in plain words. ``got`` and ``want`` are rows."""
    results = ((float(row["reward"]), int(row["flags"])) for row in (got, want))
    if text := _result_difference(*results):
        return text
    ours_bytes, theirs_bytes = got["observation"].tobytes(), want["observation"].tobytes()
    at = 0
    for path, dtype, shape in leaves_of(space) if task.observation_bytes else ():
        count = int(np.prod(shape))
        ours_array, theirs_array = (np.frombuffer(one, dtype, count, at) for one in (ours_bytes, theirs_bytes))
        for place, (one, other) in enumerate(zip(ours_array, theirs_array, strict=True)):
            if one.tobytes() != other.tobytes():
                keys = (*path, *map(int, np.unravel_index(place, shape))) if shape else path
                name = "observation" + "".join(f"[{key!r}]" for key in keys)
                return f"the environment gives {name} {one.item()!r}, the record says {other.item()!r}"
        at += count * dtype.itemsize
    return "the environment gives another observation than the record"


def _steps_hash(log: Log, episode: Episode) -> bytes:
    """A hash that leaves out what a model said: other words may mean the same actions."""
    whole = hashlib.sha256(f"{episode.status} {episode.code}".encode())
    for _, payloads in log.load([episode]):
        for payload in payloads:
            whole.update(payload)
    return whole.digest()


def _replay_policy(bundle: Bundle, sample: Sequence[Episode], checks: Checks, tell: Callable[[int], None]) -> None:
    """Play the sample again with the policy, into a log that is thrown away: each episode must have the same hash."""
    assert checks.policy is not None
    failures: dict[int, BaseException] = {}
    played = count(len(sample) + 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "episodes.log"
        log = LogWriter(path, bundle.plan_digest, bundle.start.nonce)
        with closing(log):
            for number, task in enumerate(bundle.plan.tasks):
                jobs = [(one.number, one.seed) for one in sample if one.task == number]
                Player(
                    log,
                    number,
                    task,
                    checks.policy.maker,
                    targets=dict(checks.targets or {}),
                    isolation=checks.isolation,
                    on_end=lambda: tell(next(played)),
                    on_failure=failures.__setitem__,
                ).play(jobs, 8)
        again = read_log(path, bundle.plan_digest, bundle.start.nonce, [task.row for task in bundle.plan.tasks])
        for episode in sample:
            other = again.episodes.get(episode.number)
            if other is None or other.head == episode.head:
                continue
            if episode.calls and _steps_hash(again, other) == _steps_hash(bundle.log, episode):
                continue
            text, reason = "the policy acts otherwise than the record says.", "tampered"
            if (error := failures.get(episode.number)) is not None:
                text, reason = f"it can't be played again here: {type(error).__name__}: {error}", "irreproducible"
            elif checks.policy.plan.digest is None:
                text, reason = f"{text} Without a digest, it may be another or not repeat itself.", "irreproducible"
            raise InvalidBundle(f"episode {episode.number}: {text}", reason=reason, episode=episode.number)
