"""Plan: everything that make() decided, as a value. Planning is pure; what can't be built raises PlanError here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from paddock.core.spec import EnvSpec, WrapperSpec, entry_point_text
from paddock.errors import NotTransferable, PlanError
from paddock.kernels import numba_installed
from paddock.making.options import LaneOptions, RemoteOptions
from paddock.making.target import Target, is_own_wrapper
from paddock.trust.settings import choose

if TYPE_CHECKING:
    from paddock.sandbox.policy import Policy
    from paddock.sources.families import Family


Backend: TypeAlias = Literal["one", "loop", "threads", "compiled", "ale", "processes", "ray", "remote"]
Isolation: TypeAlias = "str | Policy | None"
Tier: TypeAlias = Literal["none", "process", "landlock", "sandbox", "docker", "podman", "gvisor", "auto", "remote"]
WrapperLike: TypeAlias = "WrapperSpec | Callable[[Any], Any]"

_BACKENDS = ("auto", "loop", "threads", "compiled", "ale", "ray")
_WALLS = ("sandbox", "landlock", "auto", "docker", "podman", "gvisor")
_ISOLATION = {
    "none": "none: runs in this process",
    "process": "process: a crash or a hang stays in the worker; no wall, so the code may do anything that you may",
    "landlock": "landlock: Landlock, seccomp and limits; for machines without namespaces",
    "sandbox": "sandbox: namespaces, Landlock, seccomp and limits; it sees only what is listed here",
    "docker": "docker: a container of its own, seccomp and limits; it sees only what is listed here",
    "podman": "podman: a container of its own, seccomp and limits; it sees only what is listed here",
    "gvisor": "gvisor: a container of its own with gVisor's kernel; it sees only what is listed here",
    "auto": "auto: the strongest wall that passes a self-test on this machine",
    "remote": "remote: a server runs it, and none of its code comes here",
}
_WRAPPED = (
    "slower than without wrappers, which go into each lane. Wrap the lanes instead: paddock.wrappers.vector has most "
    "wrappers for lanes that step together"
)
_WIRES = {
    "auto": "paddock.v2, paddock.v1 or OpenEnv's JSON, the first that the server speaks (see the environment's repr)",
    "paddock.v2": "paddock.v2 only",
    "paddock.v1": "paddock.v1 only",
    "openenv": "OpenEnv's JSON only",
}


@dataclass(frozen=True)
class Plan:
    """What will be built. ``lines()`` says it in words; ``build(plan)`` does it."""

    target: Target
    num_envs: int | None
    isolation: Tier
    wall: Policy | None  # what the code may do; None: anything that this process may
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
        """Return the plan as (what, how) rows, outermost decision first."""
        target, spec = self.target, self.target.spec
        rows = [("target", f"{target.text} ({target.kind})"), ("isolation", _ISOLATION[self.isolation])]
        if (why := explain_trust(target)) is not None:
            rows.append(("third-party code", why))
        if self.wall is not None:
            from paddock.making.payload import wall_lines  # when first used: it looks at files

            rows += wall_lines(self, self.wall)
        if target.url is not None:
            return [*rows, *_remote_lines(self)]
        rows += target.notes
        if target.kind == "source" and target.module is not None:
            from paddock.sources.families import describe_source

            rows.append(("library", describe_source(target.module, target.id or "")))
        if spec is None:
            later = f"known after importing {target.module}"
            lanes = [] if self.num_envs is None else [("lanes", f"{self.num_envs}, how they step is {later}")]
            return [*rows, *lanes, ("entry point", later), ("arguments", _arguments_text(None, self.env_kwargs))]
        if self.num_envs is not None:
            if self.backend != "compiled":
                how = self._steps()
            elif _is_kernel(spec):
                how = f"stepped together, {_slower(spec) or 'compiled'}"
            else:
                how = "stepped together by the environment's own vector form"
            rows.append(("lanes", f"{self.num_envs}, {how}, autoreset {self.lanes.autoreset.value}"))
        elif slower := _slower(spec):
            rows.append(("speed", slower))
        if (
            self.backend == "loop"
            and spec.vector_entry_point is not None
            and (self.wrappers or spec.additional_wrappers)
        ):
            rows.append(("speed", _WRAPPED))
        own = self.backend == "compiled"  # such lanes always check: they read memory by their actions
        entry_point = spec.vector_entry_point if own else spec.entry_point
        rows.append(("entry point", "none" if entry_point is None else entry_point_text(entry_point)))
        rows.append(("arguments", _arguments_text(spec, self.env_kwargs)))
        own = own or self.backend == "ale"
        rows.append(("order of calls", "enforced" if own or spec.order_enforce else "not enforced"))
        rows.append(("actions", "validated" if own or self.validates() else "not validated"))
        steps = self.max_steps()
        rows.append(("time limit", "none" if steps is None else f"{steps} steps"))
        if spec.additional_wrappers:
            rows.append(("wrappers of the spec", ", ".join(w.name for w in spec.additional_wrappers)))
        if self.wrappers:
            rows.append(("wrappers", ", ".join(map(wrapper_name, self.wrappers))))
        return rows

    def _steps(self) -> str:
        lanes = self.lanes
        if self.backend == "loop":
            return f"stepped in a loop, on a fault {lanes.on_fault}"
        if self.backend in ("threads", "ale"):
            threads = "as many threads as cores" if lanes.threads is None else f"{lanes.threads} threads"
            if self.backend == "ale":
                return f"stepped together by the ALE in {threads}, frames scaled and stacked"
            return f"stepped by {threads}, on a fault {lanes.on_fault}"
        if self.backend == "ray":
            size = "shared among its cores" if lanes.lanes_per_actor is None else f"{lanes.lanes_per_actor} to an actor"
            inner = in_actors(self, 1)
            how = "compiled" if inner.backend == "compiled" else inner._steps()
            return f"in actors of a Ray cluster, {size}; there {how}"
        workers = "as many workers as cores" if lanes.workers is None else f"{lanes.workers} workers"
        deadline = "no deadline" if lanes.deadline_s is None else f"{lanes.deadline_s} s per step"
        return f"in {workers}, {deadline}, on a fault {lanes.on_fault}"

    def validates(self) -> bool:
        """Whether actions are checked; if the caller did not say, the spec decides."""
        if self.validate is not None:
            return self.validate
        return self.target.spec is None or not self.target.spec.disable_env_checker

    def max_steps(self) -> int | None:
        """Return the time limit; -1 from the caller means none."""
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
    """Decide how to build a located target. PlanError says which two wishes clash, and how to resolve it."""
    _check_options(target, remote, max_episode_steps, wrappers, lanes)
    wall: Policy | None = None
    tier: Tier = "remote"
    resolved: Backend = "one" if num_envs is None else "remote"
    if target.kind != "url":
        isolation = default_isolation(target, wrappers) if isolation is None else isolation  # before a spec can say
        target, num_envs, isolation, backend = _without_lane_arguments(target, num_envs, isolation, backend)
        wall = choose_wall(target, isolation)
        tier = wall.tier if wall is not None else "process" if isolation == "process" else "none"
    if num_envs is not None and (type(num_envs) is not int or num_envs < 1):
        raise PlanError(f"num_envs={num_envs!r}: expected how many lanes, at least 1.")
    if target.kind != "url":
        resolved = _resolve_backend(target, num_envs, tier, backend, wrappers, max_episode_steps, render_mode)
    decided = Plan(
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
    if target.kind == "url":
        _check_remote(decided, isolation, backend)
    if resolved == "ray" and num_envs is not None:
        decided.lanes.check("ray")
        if decided.lanes.batch_size is not None:
            raise PlanError("LaneOptions(batch_size=…): lanes in Ray actors step together. Drop it.")
        in_actors(decided, 1)
    elif lanes is not None:
        lanes.check("one" if num_envs is None and resolved == "ray" else resolved)
    return decided


def in_actors(decided: Plan, num_envs: int) -> Plan:
    """Return the plan for the lanes of one Ray actor."""
    wrappers, limit, mode = decided.wrappers, decided.max_episode_steps, decided.render_mode
    inner = _resolve_backend(decided.target, num_envs, decided.isolation, "auto", wrappers, limit, mode)
    lanes = decided.lanes.in_actors()
    lanes.check(inner)
    return replace(decided, num_envs=num_envs, backend=inner, lanes=lanes)


def _check_options(
    target: Target, remote: RemoteOptions | None, limit: int | None, wrappers: Any, lanes: LaneOptions | None
) -> None:
    if remote is not None and target.kind != "url":
        raise PlanError(f"remote= is for servers, and {target.text!r} runs on this machine. Drop remote=.")
    if limit is not None and (type(limit) is not int or (limit <= 0 and limit != -1)):
        raise PlanError(f"max_episode_steps={limit!r}: expected a positive number, or -1 for no limit.")
    alone = isinstance(wrappers, (str, WrapperSpec)) or not hasattr(wrappers, "__iter__")
    if alone or not all(isinstance(one, WrapperSpec) or callable(one) for one in wrappers):
        raise PlanError(f"wrappers={wrappers!r}: expected a list of wrapper classes, functions or specs.")
    if lanes is not None and not isinstance(lanes, LaneOptions):
        raise PlanError(f"lanes={lanes!r}: expected paddock.LaneOptions(...).")


def _without_lane_arguments(
    target: Target, num_envs: int | None, isolation: Isolation, backend: str
) -> tuple[Target, int | None, Isolation, str]:
    """Take out of a vector environment's spec how many lanes it had and how they step."""
    if target.spec is None or "vectorization_mode" not in target.spec.kwargs:
        return target, num_envs, isolation, backend
    kwargs = dict(target.spec.kwargs)
    mode, count = kwargs.pop("vectorization_mode"), kwargs.pop("num_envs", None)
    target = replace(target, spec=replace(target.spec, kwargs=kwargs))
    num_envs = count if num_envs is None else num_envs
    if mode == "async":
        return target, num_envs, isolation or "process", backend
    if backend == "auto" and isolation in (None, "none"):
        if mode == "vector_entry_point":
            backend = "ale" if is_atari(target) else "compiled"
        else:
            backend = "threads" if steps_in_threads(target, (), None) else "loop"
    return target, num_envs, isolation, backend


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
        if backend == "ray" and isolation == "none":
            return "ray"
        if backend != "auto":
            raise PlanError(f"backend={backend!r} is for n lanes. Pass num_envs=n, or drop backend.")
        return "one"
    if backend == "ray":
        return "ray"
    if isolation != "none":
        if backend != "auto":
            raise PlanError(
                f"backend={backend!r} steps lanes in this process, but isolation={isolation!r} in others. Drop one of "
                f"them."
            )
        return "processes"
    if backend == "compiled" and not compiled:
        raise PlanError(f"{target.text!r} has no vector entry point to compile. Use backend='auto' or 'loop'.")
    if backend == "compiled" and wrapped:
        raise PlanError("backend='compiled' steps all lanes in one call, so it can't take wrappers of one lane.")
    if backend == "ale":
        check_ale(target, wrappers, limit, render_mode)
        return "ale"
    if backend == "compiled" or (backend == "auto" and compiled and not wrapped):
        return "compiled"
    unasked = backend == "auto" and steps_in_threads(target, wrappers, render_mode)
    return "threads" if backend == "threads" or unasked else "loop"


def _slower(spec: EnvSpec) -> str:
    """Say what a kernel loses without Numba; nothing is compiled or imported to find out."""
    if numba_installed() or not _is_kernel(spec):
        return ""
    return "as plain Python, slower: Numba is not installed (pip install numba)"


def _is_kernel(spec: EnvSpec) -> bool:
    entry_point = spec.vector_entry_point
    built_in = isinstance(entry_point, str) and entry_point.startswith("paddock.envs.")
    return built_in or hasattr(entry_point, "env_type")


def _arguments_text(spec: EnvSpec | None, given: dict[str, Any]) -> str:
    merged = {**(spec.kwargs if spec else {}), **given}
    return ", ".join(f"{name}={value!r}" for name, value in merged.items()) or "none"


def default_isolation(target: Target, wrappers: Sequence[WrapperLike] = ()) -> str | None:
    """Where a target's code runs if the caller does not say: behind the wall if it came as a folder.

    Other code of others runs in this process unless the user's settings say otherwise. ``wrappers`` count if they are
    data: a class or a function is code that is here already.
    """
    if target.folder is not None:
        return "sandbox"
    theirs = any(isinstance(one, WrapperSpec) and not is_own_wrapper(one) for one in wrappers)
    if target.url is not None or not (target.third_party or theirs):
        return None
    isolation = choose().isolation
    return None if isolation == "none" else isolation


def explain_trust(target: Target) -> str | None:
    """Say where code of others runs, and who decided that; None for a target that has none."""
    if not target.third_party or target.folder is not None:
        return None
    isolation, reason = choose()
    if isolation == "none":
        return f"runs in this process, {reason}. Commands such as `paddock run` put it behind the wall"
    return f"has isolation={isolation!r}, {reason}, unless make() is told another"


def choose_wall(target: Target, isolation: Isolation) -> Policy | None:
    """Choose the permissions behind the wall, or None for no wall. PlanError for a tier that does not exist.

    If the caller did not ask for a tier, it depends on where the code comes from.
    """
    isolation = default_isolation(target) if isolation is None else isolation
    if isolation is None:
        return None
    if isolation == "none" and target.openenv:
        raise PlanError(
            f"isolation='none' can't be used with {target.text!r}: its modules have the names that those of every "
            f"OpenEnv folder have, server and models. Use isolation='process' if you trust it."
        )
    if isolation in ("none", "process"):
        return None
    if isolation in _WALLS:
        return _default_wall(target, isolation)
    from paddock.sandbox.policy import Policy

    if isinstance(isolation, Policy):
        return isolation
    raise PlanError(
        f"isolation={isolation!r} is not one of 'none', 'process', {', '.join(map(repr, _WALLS))}, nor a "
        f"paddock.Policy. Use 'sandbox' for code that you do not trust."
    )


def _default_wall(target: Target, tier: str) -> Policy:
    """Return what a manifest asks for if it is within the default: only the caller can grant more than that.

    What paddock declares for its own environments is granted.
    """
    from paddock.sandbox.policy import DEFAULT

    if target.asked is None:
        return replace(DEFAULT, tier=tier)  # type: ignore[arg-type]
    if target.folder is None or target.package is not None:
        return _in_tier(target.asked, tier)
    from paddock.sandbox.policy import find_excess

    beyond = find_excess(target.asked, DEFAULT)
    if beyond:
        raise PlanError(
            f"{target.text!r} asks for more than code gets by default: {'; '.join(beyond)}. Read it with `paddock "
            f"permissions {target.text}`; grant it with isolation=paddock.permissions({target.text!r}), on the "
            f"command line with --grant (run, check, serve), or pass your own paddock.Policy(...)."
        )
    return replace(target.asked, tier=tier)  # type: ignore[arg-type]


def _in_tier(policy: Policy, tier: str) -> Policy:
    """Change the tier of the policy and of its workspaces: where one wall can't be put up, another can't either."""
    workspace = None if policy.workspace is None else _in_tier(policy.workspace, tier)
    return replace(policy, tier=tier, workspace=workspace)  # type: ignore[arg-type]


def wrapper_name(wrapper: WrapperLike) -> str:
    """Name a wrapper for a plan."""
    if isinstance(wrapper, WrapperSpec):
        return wrapper.name
    called = wrapper.func if isinstance(wrapper, partial) else wrapper
    return getattr(called, "__name__", repr(called))


def as_wrapper_spec(wrapper: WrapperLike) -> WrapperSpec:
    """Write a wrapper as data. Of a function only the name is kept, so ``make`` can say what it can't make again."""
    if isinstance(wrapper, WrapperSpec):
        return wrapper
    if isinstance(wrapper, partial) and isinstance(wrapper.func, type) and not wrapper.args:
        return WrapperSpec(wrapper_name(wrapper), entry_point_text(wrapper.func), dict(wrapper.keywords))
    kwargs: dict[str, Any] | None = {} if isinstance(wrapper, type) else None
    return WrapperSpec(wrapper_name(wrapper), entry_point_text(wrapper), kwargs)


def steps_in_threads(target: Target, wrappers: Sequence[WrapperLike], render_mode: str | None) -> bool:
    """Whether threads are the best backend for such lanes when the caller did not choose one."""
    family = _family(target)
    if family is None or not family.lets_go:
        return False
    # Frames are drawn in the thread that drew the first one: the caller's, unless a wrapper draws during a step.
    return render_mode is None or (render_mode != "human" and not wrappers)


def is_atari(target: Target) -> bool:
    """Whether the ALE can step lanes of this target itself."""
    family = _family(target)
    return family is not None and family.name == "Atari"


def check_ale(
    target: Target, wrappers: Sequence[WrapperLike], max_episode_steps: int | None, render_mode: str | None
) -> None:
    """Raise PlanError for what ``backend="ale"`` can't do."""
    if not is_atari(target):
        raise PlanError(f"backend='ale' is for Atari games such as 'ALE/Pong-v5'; {target.text!r} isn't one. Drop it.")
    if wrappers:
        raise PlanError("backend='ale' steps all lanes in one call, so it can't take wrappers of one lane.")
    if render_mode is not None:
        raise PlanError(f"backend='ale' renders nothing: drop render_mode={render_mode!r}, or pass backend='loop'.")
    if max_episode_steps is not None:
        raise PlanError(
            f"backend='ale' counts frames, including those before the first step: instead of max_episode_steps="
            f"{max_episode_steps}, pass max_num_frames_per_episode=…"
        )


def _family(target: Target) -> Family | None:
    source = target.module if target.kind == "source" else None
    entry_point = None if target.spec is None else target.spec.entry_point
    if source is None and not (isinstance(entry_point, str) and entry_point.startswith("paddock.sources.")):
        return None
    from paddock.sources.families import family_in_gymnasium

    return family_in_gymnasium(source, target.id, entry_point)


def redirect_to_envpool(
    target: Target, backend: str, *, num_envs: int | None, isolation: Any, wrappers: Sequence[Any]
) -> tuple[Target, str]:
    """For ``backend="envpool"``, return EnvPool's task for an id and the backend to plan it with; else both unchanged.

    The numbers differ from any other backend's. EnvPool has its own environments, written in
    C++: rules and spaces are meant to be the same, random streams and preprocessing are not.
    """
    if backend != "envpool":
        return target, backend
    if target.id is None or target.folder is not None or target.kind == "url":
        raise PlanError(f"backend='envpool' is for ids that EnvPool has, but {target.text!r} is a {target.kind}.")
    if num_envs is None:
        raise PlanError("backend='envpool' is for n lanes. Pass num_envs=n, or drop backend.")
    if isolation not in (None, "none"):
        raise PlanError(
            f"backend='envpool' steps lanes in this process, but isolation={isolation!r} in others. Drop one of them."
        )
    if wrappers:
        raise PlanError(
            "backend='envpool' steps all lanes in one call, so it can't take wrappers of one lane. Wrap all lanes "
            "together: paddock.wrappers.vector has most wrappers."
        )
    task = target.id.removeprefix("ALE/")
    found = Target(f"envpool:{task}", "source", module="envpool", id=task)
    if isolation is None and default_isolation(found) is not None:
        raise PlanError(
            f"backend='envpool' steps lanes in this process, but code of others is kept apart, {choose().reason}. Pass "
            f"isolation='none' if you trust EnvPool."
        )
    return found, "auto"


def _check_remote(plan: Plan, isolation: Isolation, backend: str) -> None:
    """Raise PlanError for what only whoever runs the server can decide."""
    from paddock.hosting.remote_address import parse_address  # when first used: most targets are here
    from paddock.hosting.values import to_wire

    target, options = plan.target, RemoteOptions() if plan.remote is None else plan.remote
    if not isinstance(options, RemoteOptions):
        raise PlanError(f"remote={type(options).__name__}: expected paddock.RemoteOptions(...).")
    options.check()
    assert target.url is not None
    parse_address(target.url, token=options.token, insecure=options.insecure, environ={})
    if isolation is not None:
        raise PlanError(
            f"isolation={isolation!r} can't be used with {target.text!r}: the server runs the environment, behind "
            f"its own wall. Drop isolation, or run the environment's code here."
        )
    if backend != "auto":
        raise PlanError(f"backend={backend!r} can't be used with {target.text!r}: the server chooses it. Drop backend.")
    if plan.validate is not None or plan.max_episode_steps is not None:
        name = "validate" if plan.validate is not None else "max_episode_steps"
        raise PlanError(
            f"{name}= can't be used with {target.text!r}: the server decides about its episodes. For a shorter limit "
            f"here: wrappers=[paddock.wrappers.TimeLimit.wrapper_spec(max_episode_steps=n)]."
        )
    if plan.num_envs is not None and plan.wrappers:
        raise PlanError(
            "wrappers= go around each lane, and these lanes are on the server. Wrap the result of make() with one of "
            "paddock.wrappers.vector."
        )
    if (
        "token" in plan.env_kwargs
        and parse_address(target.url, token=options.token, insecure=True).authorization is None
    ):
        raise PlanError(
            "token= would go to the environment as one of its arguments. The server's token goes into "
            "remote=paddock.RemoteOptions(token=...), the URL's user part, or the variable PADDOCK_TOKEN."
        )
    for name, value in plan.env_kwargs.items():
        try:
            to_wire(value, [], name=name)
        except NotTransferable as error:
            raise PlanError(f"{error} So it can't be sent to the server.") from None


def _remote_lines(plan: Plan) -> list[tuple[str, str]]:
    from paddock.hosting.remote_address import parse_address

    options = plan.remote or RemoteOptions()
    assert plan.target.url is not None
    address = parse_address(plan.target.url, token=options.token, insecure=options.insecure)
    by = "a unix socket" if address.unix is not None else "TLS" if address.secure else "plain TCP"
    waits = "no limit" if options.deadline_s is None else f"{options.deadline_s:g} s"
    rows = [
        ("server", str(address)),
        ("environment", address.id or "the only one of the server"),
        ("wire", _WIRES[options.wire]),
        ("connection", f"{by}, {'with a token' if address.authorization is not None else 'without a token'}"),
        ("patience", f"{options.connect_s:g} s to connect, {waits} for a reply, {options.resume_s:g} s to resume"),
        ("results", "checked against the declared spaces before they are believed"),
    ]
    if plan.num_envs is not None:
        how = f"one message per step, on a fault {plan.lanes.on_fault}, autoreset {plan.lanes.autoreset.value}"
        rows.append(("lanes", f"{plan.num_envs}, all in one worker at the server, {how}"))
    rows.append(("arguments", _arguments_text(None, plan.env_kwargs)))
    if plan.wrappers:
        rows.append(("wrappers", f"{', '.join(map(wrapper_name, plan.wrappers))} (here, around it)"))
    return rows
