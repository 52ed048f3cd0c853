"""Plan: everything that make() decided, as a value. Planning is pure; what can't be built is a PlanError here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from paddock.core.spec import EnvSpec, WrapperSpec, entry_point_text
from paddock.errors import PlanError
from paddock.kernels.installed import numba_installed
from paddock.making.isolation import Isolation, Tier, tier_of, wall_for
from paddock.making.lane_options import LaneOptions
from paddock.making.remote_options import RemoteOptions
from paddock.making.simulators import check_ale, is_atari, steps_in_threads
from paddock.making.target import Target
from paddock.making.wrapper_stack import WrapperLike, name_of

if TYPE_CHECKING:
    from paddock.sandbox.policy import Policy

_BACKENDS = ("auto", "loop", "threads", "compiled", "ale")

Backend: TypeAlias = Literal["one", "loop", "threads", "compiled", "ale", "processes", "remote"]


@dataclass(frozen=True)
class Plan:
    """What will be built. ``lines()`` says it in words; ``build(plan)`` does it."""

    target: Target
    num_envs: int | None
    isolation: Tier
    wall: Policy | None  # what the code may do; None where it may do all that this process may
    backend: Backend
    validate: bool | None
    strict: bool
    max_episode_steps: int | None
    render_mode: str | None
    wrappers: tuple[WrapperLike, ...]
    env_kwargs: dict[str, Any]
    lanes: LaneOptions
    remote: RemoteOptions | None = None

    def lines(self) -> list[tuple[str, str]]:
        """The plan as (what, how) rows, outermost decision first."""
        target, spec = self.target, self.target.spec
        rows = [("target", f"{target.text} ({target.kind})"), ("isolation", _ISOLATION[self.isolation])]
        if self.wall is not None:
            from paddock.making.wall_lines import wall_lines  # when first used: it looks at files

            rows += wall_lines(self, self.wall)
        if target.url is not None:
            return [*rows, *self._remote_lines()]
        if target.kind == "source" and target.module is not None:
            from paddock.sources.families import in_words

            rows.append(("library", in_words(target.module, target.id or "")))
        if spec is None:
            later = f"known after importing {target.module}"
            lanes = [] if self.num_envs is None else [("lanes", f"{self.num_envs}, how they step is {later}")]
            return [*rows, *lanes, ("entry point", later), ("arguments", _arguments_text(None, self.env_kwargs))]
        if self.num_envs is not None:
            how = _own_form(spec) if self.backend == "compiled" else self._steps()
            rows.append(("lanes", f"{self.num_envs}, {how}, autoreset {self.lanes.autoreset.value}"))
        elif slower := _slower(spec):
            rows.append(("speed", slower))
        if (
            self.backend == "loop"
            and spec.vector_entry_point is not None
            and (self.wrappers or spec.additional_wrappers)
        ):
            rows.append(("speed", _WRAPPED))
        own = self.backend == "compiled"  # such lanes read memory by their actions: they always check
        entry_point = spec.vector_entry_point if own else spec.entry_point
        rows.append(("entry point", "none" if entry_point is None else entry_point_text(entry_point)))
        rows.append(("arguments", _arguments_text(spec, self.env_kwargs)))
        own = own or self.backend == "ale"
        rows.append(("order of calls", "enforced" if own or spec.order_enforce else "not enforced"))
        rows.append(("actions", "validated" if own or self.validates() else "not validated"))
        rows.append(("time limit", _limit_text(self.max_steps())))
        if spec.additional_wrappers:
            rows.append(("wrappers of the spec", ", ".join(w.name for w in spec.additional_wrappers)))
        if self.wrappers:
            rows.append(("wrappers", ", ".join(map(name_of, self.wrappers))))
        return rows

    def _remote_lines(self) -> list[tuple[str, str]]:
        from paddock.making.remote_plan import remote_lines  # when first used: most targets are here

        rows = remote_lines(self.target, self.remote)
        if self.num_envs is not None:
            how = f"one message a step, on a fault {self.lanes.on_fault}, autoreset {self.lanes.autoreset.value}"
            rows.append(("lanes", f"{self.num_envs}, all in one worker at the server, {how}"))
        rows.append(("arguments", _arguments_text(None, self.env_kwargs)))
        if self.wrappers:
            rows.append(("wrappers", f"{', '.join(map(name_of, self.wrappers))} (here, around it)"))
        return rows

    def _steps(self) -> str:
        lanes = self.lanes
        if self.backend == "loop":
            return f"stepped in a loop, on a fault {lanes.on_fault}"
        if self.backend in ("threads", "ale"):
            threads = "as many threads as cores" if lanes.threads is None else f"{lanes.threads} threads"
            if self.backend == "ale":
                return f"stepped together by the ALE in {threads}, pictures scaled and stacked"
            return f"stepped by {threads}, on a fault {lanes.on_fault}"
        workers = "as many workers as cores" if lanes.workers is None else f"{lanes.workers} workers"
        deadline = "no deadline" if lanes.deadline_s is None else f"{lanes.deadline_s} s a step"
        return f"in {workers}, {deadline}, on a fault {lanes.on_fault}"

    def validates(self) -> bool:
        """Whether actions are checked; the spec decides where the caller did not."""
        if self.validate is not None:
            return self.validate
        return self.target.spec is None or not self.target.spec.disable_env_checker

    def max_steps(self) -> int | None:
        """The time limit; -1 from the caller means none."""
        if self.max_episode_steps is not None:
            return None if self.max_episode_steps == -1 else self.max_episode_steps
        return self.target.spec.max_episode_steps if self.target.spec is not None else None


def plan(
    target: Target,
    *,
    num_envs: int | None = None,
    isolation: Isolation = None,
    backend: str = "auto",
    validate: bool | None = None,
    strict: bool = True,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    wrappers: Sequence[WrapperLike] = (),
    env_kwargs: dict[str, Any] | None = None,
    lanes: LaneOptions | None = None,
    remote: RemoteOptions | None = None,
) -> Plan:
    """Decide how to build a located target, or say which two wishes clash and the ways out."""
    _check_place(target, remote)
    _check_limit(max_episode_steps)
    _check_wrappers(wrappers)
    _check_count(num_envs)
    wall: Policy | None = None
    if target.kind == "url":
        from paddock.making.remote_plan import check_remote  # when first used: most targets are here

        check_remote(
            target,
            remote,
            num_envs=num_envs,
            isolation=isolation,
            backend=backend,
            validate=validate,
            max_episode_steps=max_episode_steps,
            wrappers=wrappers,
            env_kwargs=env_kwargs or {},
        )
        tier: Tier = "remote"
        resolved: Backend = "one" if num_envs is None else "remote"
    else:
        target, num_envs, isolation, backend = _without_lane_arguments(target, num_envs, isolation, backend)
        wall = wall_for(target, isolation)
        tier = tier_of(isolation, wall)
        _check_count(num_envs)
        resolved = _resolve_backend(target, num_envs, tier, backend, wrappers, max_episode_steps, render_mode)
    _check_lane_options(lanes, resolved)
    return Plan(
        target=target,
        num_envs=num_envs,
        isolation=tier,
        wall=wall,
        backend=resolved,
        validate=validate,
        strict=strict,
        max_episode_steps=max_episode_steps,
        render_mode=render_mode,
        wrappers=tuple(wrappers),
        env_kwargs=dict(env_kwargs or {}),
        lanes=lanes or LaneOptions(),
        remote=remote,
    )


def _check_place(target: Target, remote: RemoteOptions | None) -> None:
    if target.kind == "package":
        raise PlanError(
            f"{target.text!r} is a signed package, and this version of paddock has no store for them yet. Unpack it "
            f"and name its folder, as ./{target.text.partition('@')[0].rpartition('/')[2]}."
        )
    if remote is not None and target.kind != "url":
        raise PlanError(f"remote= is for servers, and {target.text!r} runs on this machine. Drop remote=.")


def _without_lane_arguments(
    target: Target, num_envs: int | None, isolation: Isolation, backend: str
) -> tuple[Target, int | None, Isolation, str]:
    """A spec read back from a vector environment says among its arguments how many lanes it had, and how they step."""
    if target.spec is None or "vectorization_mode" not in target.spec.kwargs:
        return target, num_envs, isolation, backend
    kwargs = dict(target.spec.kwargs)
    mode, count = kwargs.pop("vectorization_mode"), kwargs.pop("num_envs", None)
    target = replace(target, spec=replace(target.spec, kwargs=kwargs))
    num_envs = count if num_envs is None else num_envs
    if mode == "async":
        return target, num_envs, isolation or "process", backend
    if backend == "auto" and isolation in (None, "none"):
        backend = _backend_of(mode, target)
    return target, num_envs, isolation, backend


def _backend_of(mode: str, target: Target) -> str:
    if mode == "vector_entry_point":
        return "ale" if is_atari(target) else "compiled"
    return "threads" if steps_in_threads(target, (), None) else "loop"


def _check_lane_options(lanes: LaneOptions | None, backend: str) -> None:
    if lanes is not None and not isinstance(lanes, LaneOptions):
        raise PlanError(f"lanes={lanes!r}: expected paddock.LaneOptions(...).")
    if lanes is not None and backend == "one":
        raise PlanError("lanes= is for n lanes. Pass num_envs=n, or drop lanes.")
    if lanes is not None:
        lanes.check(backend)


def _check_wrappers(wrappers: Any) -> None:
    alone = isinstance(wrappers, (str, WrapperSpec)) or not hasattr(wrappers, "__iter__")
    if alone or not all(isinstance(one, WrapperSpec) or callable(one) for one in wrappers):
        raise PlanError(f"wrappers={wrappers!r}: expected a list of wrapper classes, functions or specs.")


def _check_limit(max_episode_steps: int | None) -> None:
    if max_episode_steps is None:
        return
    if type(max_episode_steps) is not int or (max_episode_steps <= 0 and max_episode_steps != -1):
        raise PlanError(f"max_episode_steps={max_episode_steps!r}: expected a positive count, or -1 for no limit.")


def _check_count(num_envs: int | None) -> None:
    if num_envs is not None and (type(num_envs) is not int or num_envs < 1):
        raise PlanError(f"num_envs={num_envs!r}: expected a count of lanes, at least 1.")


def _resolve_backend(
    target: Target,
    num_envs: int | None,
    isolation: str,
    backend: str,
    wrappers: Sequence[WrapperLike],
    limit: int | None,
    render_mode: str | None,
) -> Backend:
    if backend not in _BACKENDS:
        raise PlanError(f"backend={backend!r} is not one of {', '.join(_BACKENDS)}, envpool.")
    compiled = target.spec is not None and target.spec.vector_entry_point is not None
    wrapped = bool(wrappers) or (target.spec is not None and bool(target.spec.additional_wrappers))
    if num_envs is None:
        if backend != "auto":
            raise PlanError(f"backend={backend!r} is for n lanes. Pass num_envs=n, or drop backend.")
        return "one"
    if isolation != "none":
        if backend != "auto":
            raise PlanError(
                f"backend={backend!r} steps lanes in this process, and isolation={isolation!r} in others. Drop one of "
                f"them."
            )
        return "processes"
    if backend == "compiled" and not compiled:
        raise PlanError(f"{target.text!r} has no vector entry point to compile. Use backend='auto' or 'loop'.")
    if backend == "compiled" and wrapped:
        raise PlanError("backend='compiled' steps all lanes in one call, so wrappers of one lane can't be put inside.")
    if backend == "ale":
        check_ale(target, wrappers, limit, render_mode)
        return "ale"
    if backend == "compiled" or (backend == "auto" and compiled and not wrapped):
        return "compiled"
    by_itself = backend == "auto" and steps_in_threads(target, wrappers, render_mode)
    return "threads" if backend == "threads" or by_itself else "loop"


_ISOLATION = {
    "none": "none: runs in this process",
    "process": "process: a crash or a hang stays in the worker; no wall, the code may do all that you may",
    "landlock": "landlock: Landlock, seccomp and limits; for places where namespaces can't be had",
    "sandbox": "sandbox: namespaces, Landlock, seccomp and limits; it sees only what is listed here",
    "auto": "auto: the strongest wall that passes a self-test on this machine",
    "remote": "remote: a server runs it, and nothing of its code comes here",
}


_WRAPPED = (
    "slower than without wrappers, which go into each lane. Wrap the lanes instead: paddock.wrappers.vector has most "
    "wrappers for lanes that step together"
)


def _own_form(spec: EnvSpec) -> str:
    if not _is_kernel(spec):
        return "stepped together by the environment's own vector form"
    return f"stepped together, {_slower(spec) or 'compiled'}"


def _slower(spec: EnvSpec) -> str:
    """What a kernel loses without Numba; nothing is compiled or imported to find out."""
    if numba_installed() or not _is_kernel(spec):
        return ""
    return 'as plain Python, slower: Numba is not installed (pip install "paddock[fast]")'


def _is_kernel(spec: EnvSpec) -> bool:
    entry_point = spec.vector_entry_point
    built_in = isinstance(entry_point, str) and entry_point.startswith("paddock.envs.")
    return built_in or hasattr(entry_point, "env_type")


def _arguments_text(spec: EnvSpec | None, given: dict[str, Any]) -> str:
    merged = {**(spec.kwargs if spec else {}), **given}
    return ", ".join(f"{name}={value!r}" for name, value in merged.items()) or "none"


def _limit_text(steps: int | None) -> str:
    return "none" if steps is None else f"{steps} steps"
