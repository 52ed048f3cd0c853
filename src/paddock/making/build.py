"""Build what a plan says. Here, and only here, environment code is imported and run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from paddock.core.env import Env
from paddock.core.lookup import find_spec
from paddock.core.registry import registry
from paddock.core.spec import EnvSpec, WrapperSpec, entry_point_text
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.warning import warn_user
from paddock.errors import InvalidSpec, PlanError, PluginError, UnregisteredEnv, UnsupportedMode
from paddock.making.entry_point import load, load_object
from paddock.making.isolation import Isolation, wall_for
from paddock.making.lane_options import LaneOptions
from paddock.making.plan import Plan
from paddock.making.render_mode import negotiate
from paddock.making.target import Target
from paddock.making.wrapper_stack import WrapperLike, as_data

if TYPE_CHECKING:
    from paddock.sandbox.policy import Policy


def build(plan: Plan) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """The environment that a plan for a resolved target describes; what fails on the way closes what was opened."""
    if plan.target.url is not None:
        return _build_remote(plan)
    if plan.num_envs is None:
        return build_one(plan) if plan.isolation == "none" else _build_hosted(plan)
    return _LANES[plan.backend](plan, plan.num_envs)


def build_one(plan: Plan) -> Env[Any, Any]:
    """One environment in its guard, with the spec's wrappers and then the caller's around it."""
    spec, kwargs = _spec_and_kwargs(plan)
    if plan.target.folder is not None and plan.target.folder not in sys.path:
        sys.path.append(plan.target.folder)  # last: it shadows nothing
    creator = load(_required(spec.entry_point, spec, "entry_point"))
    if hasattr(creator, "for_spec"):  # one entry point for all environments of a library: the spec's id says which
        creator = creator.for_spec(spec)
    offered = getattr(creator, "metadata", {}).get("render_modes", ())
    mode, display = negotiate(plan.render_mode or kwargs.get("render_mode"), offered)
    if mode is not None:
        kwargs["render_mode"] = mode
    try:
        env = _construct(creator, spec, kwargs)
    except TypeError as error:
        if display is None or "render_mode" not in str(error.__cause__):
            raise
        raise UnsupportedMode(
            f"{spec.id!r} takes no render_mode, so there are no frames for render_mode={plan.render_mode!r} to show. "
            f"Give its class one, or drop render_mode."
        ) from error
    try:
        return _dressed(env, plan, _made_spec(spec, kwargs, plan), display)
    except BaseException:
        env.close()
        raise


def _dressed(env: Env[Any, Any], plan: Plan, spec: EnvSpec, display: Callable[[Any], Any] | None) -> Env[Any, Any]:
    env.unwrapped.spec = replace(spec, additional_wrappers=())
    inner = env.spec.additional_wrappers if env.spec is not None else ()
    # A spec with fewer wrappers comes from who knew of none inside; one that this environment wrote names them all.
    known = len(inner) if len(inner) <= len(spec.additional_wrappers) else 0
    if spec.additional_wrappers[:known] != inner[:known]:
        raise InvalidSpec(
            f"{spec.id!r}: the environment comes with the wrappers {[w.name for w in inner]}, "
            f"but the spec begins with {[w.name for w in spec.additional_wrappers[:known]]}."
        )
    if spec.order_enforce or plan.validates() or spec.max_episode_steps is not None:
        from paddock.wrappers.guard import Guard

        env = Guard(
            env,
            max_episode_steps=spec.max_episode_steps,
            order_enforce=spec.order_enforce,
            validate=plan.validates(),
            strict=plan.strict,
        )
    for wrapper in (*spec.additional_wrappers[known:], *plan.wrappers):
        env = _wrapped(env, wrapper)
    return env if display is None else display(env)


def _wrapped(env: Env[Any, Any], wrapper: WrapperLike) -> Env[Any, Any]:
    """Put one wrapper, as data or as a callable, around an environment."""
    if not isinstance(wrapper, WrapperSpec):
        return wrapper(env)  # type: ignore[no-any-return]
    if wrapper.kwargs is None:
        raise InvalidSpec(
            f"{wrapper.name} wrapper does not inherit from `gymnasium.utils.RecordConstructorArgs`, "
            f"therefore, the wrapper cannot be recreated."
        )
    return load(wrapper.entry_point)(env=env, **wrapper.kwargs)  # type: ignore[no-any-return]


def _build_hosted(plan: Plan) -> Env[Any, Any]:
    if plan.wall is not None:
        return _build_walled(plan, plan.wall)
    from paddock.hosting.client import HostedEnv
    from paddock.hosting.factories import dumps
    from paddock.hosting.launch import start_fresh
    from paddock.hosting.process_channel import ProcessChannel

    env = HostedEnv(ProcessChannel(*start_fresh(), pickler=dumps), {"factory": partial(build_one, plan)})
    env.spec = env.spec or _unmade_spec(plan)
    return env


def _build_remote(plan: Plan) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    from paddock.making.remote import build_remote

    env = build_remote(plan)
    if isinstance(env, VectorEnv):
        return env
    dressed = env
    try:
        for wrapper in plan.wrappers:
            dressed = _wrapped(dressed, wrapper)
    except BaseException:
        env.close()
        raise
    return dressed


def _build_walled(plan: Plan, policy: Policy) -> Env[Any, Any]:
    from paddock.making.crossing import crossing
    from paddock.making.walls import walled_env

    sent = crossing(plan)
    spec = plan.target.spec
    ordered = spec is None or spec.order_enforce
    env = walled_env(sent.what, sent.modules, sent.folder, policy, ordered=ordered)
    env.spec = _outside_spec(plan, env.spec)
    return env


def _outside_spec(plan: Plan, described: EnvSpec | None) -> EnvSpec | None:
    """The spec of an environment behind a wall. Of code that only the worker knows it names nothing to load here.

    What this side knows is not taken from the worker: the id, by which another one may be made, and the arguments.
    """
    target = plan.target
    if target.spec is not None and target.folder is None:
        return _unmade_spec(plan)
    if described is None:
        return None
    kwargs = {**({} if target.spec is None else deepcopy(target.spec.kwargs)), **plan.env_kwargs}
    if plan.render_mode is not None:
        kwargs["render_mode"] = plan.render_mode
    bare = replace(described, entry_point=None, vector_entry_point=None, additional_wrappers=(), kwargs=kwargs)
    return bare if target.id is None else replace(bare, id=target.id)


def _build_processes(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    from paddock.vector.processes import ProcessVectorEnv

    lanes = plan.lanes
    one, behind = _lane_and_wall(plan)
    env = ProcessVectorEnv(
        [one] * num_envs,
        workers=lanes.workers,
        copy=lanes.copy,
        autoreset_mode=lanes.autoreset,
        on_fault=lanes.on_fault,
        deadline_s=lanes.deadline_s,
        max_concurrency=lanes.max_concurrency,
        batch_size=lanes.batch_size,
        **behind,
    )
    if plan.wall is not None:
        env.lane_spec = _outside_spec(plan, env.lane_spec)
    return with_vector_spec(env, plan, num_envs)


def _lane_and_wall(plan: Plan) -> tuple[Any, dict[str, Any]]:
    """What makes one lane, a function or, behind a wall, plain data; and what the wall adds to the arguments."""
    if plan.wall is None:
        return partial(build_one, plan), {}
    from paddock.hosting.wall_rules import WallRules
    from paddock.making.crossing import crossing
    from paddock.making.walls import walled_launcher

    sent = crossing(plan)
    launcher = walled_launcher(sent.modules, sent.folder, plan.wall)
    return sent.what, {"launcher": launcher, "wall": WallRules.of(plan.wall)}


def _build_loop(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    from paddock.vector.loop import SyncVectorEnv

    lanes = plan.lanes
    one = partial(build_one, plan)
    env = SyncVectorEnv([one] * num_envs, lanes.copy, autoreset_mode=lanes.autoreset, on_fault=lanes.on_fault)
    return with_vector_spec(env, plan, num_envs)


def _build_threads(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    from paddock.sources.mujoco_lanes import mujoco_lanes
    from paddock.vector.threads import ThreadVectorEnv

    lanes = plan.lanes
    env = ThreadVectorEnv(
        [partial(build_one, plan)] * num_envs,
        lanes.copy,
        autoreset_mode=lanes.autoreset,
        on_fault=lanes.on_fault,
        threads=lanes.threads,
        recogniser=mujoco_lanes,
    )
    return with_vector_spec(env, plan, num_envs)


def _build_ale(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    from paddock.sources.atari_lanes import AtariLanes

    spec, kwargs = _spec_and_kwargs(plan)
    lanes = plan.lanes
    how = {"num_envs": num_envs, "autoreset_mode": lanes.autoreset, "threads": lanes.threads}
    return with_vector_spec(_construct(AtariLanes, spec, {**kwargs, **how}, VectorEnv), plan, num_envs)


def _build_compiled(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    spec, kwargs = _spec_and_kwargs(plan)
    if plan.render_mode is not None:
        kwargs["render_mode"] = plan.render_mode
    if plan.max_steps() is not None:
        kwargs["max_episode_steps"] = plan.max_steps()
    creator = load(_required(spec.vector_entry_point, spec, "vector_entry_point"))
    kwargs.update(_lane_arguments(plan, creator))
    env = _construct(creator, spec, {"num_envs": num_envs, **kwargs}, VectorEnv)
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        warn_user(
            f"{spec.id!r}: metadata['autoreset_mode'] is {mode!r}, expected an AutoresetMode; "
            f"wrappers will take it for NEXT_STEP."
        )
    return with_vector_spec(env, plan, num_envs)


def _lane_arguments(plan: Plan, creator: Callable[..., Any]) -> dict[str, Any]:
    """Lane options as arguments: all of them for our own lanes, for others only what the caller asked for."""
    asked = _as_arguments(plan.lanes)
    if getattr(creator, "takes_lane_options", False):
        given = [name for name in asked if name in plan.env_kwargs]
        if given and plan.strict:
            raise PlanError(f"{given[0]}= is an option of the lanes. Pass it as lanes=LaneOptions(...).")
        own = {**asked, "threads": plan.lanes.threads or 1, "strict": plan.strict}
        return {name: value for name, value in own.items() if name not in given}
    usual = _as_arguments(LaneOptions())
    return {name: value for name, value in asked.items() if value != usual[name]}


def _as_arguments(lanes: LaneOptions) -> dict[str, Any]:
    return {
        "autoreset_mode": lanes.autoreset,
        "copy": lanes.copy,
        "threads": lanes.threads,
        "statistics": lanes.statistics,
    }


def with_vector_spec(env: VectorEnv[Any, Any, Any], plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """``env`` with the spec that makes it again; how many lanes, and of what kind, stands among the arguments."""
    # What a lane says of itself has all arguments of its wrappers too; compiled lanes say nothing.
    spec = getattr(env, "lane_spec", None) or (None if plan.target.spec is None else _unmade_spec(plan))
    if spec is None:  # made behind a wall by code that did not say
        return env
    mode = {"compiled": "vector_entry_point", "ale": "vector_entry_point", "processes": "async"}.get(
        plan.backend, "sync"
    )
    kwargs = {**spec.kwargs, "num_envs": num_envs, "vectorization_mode": mode}
    env.unwrapped.spec = replace(spec, kwargs=kwargs)
    return env


def _unmade_spec(plan: Plan) -> EnvSpec:
    """What can be said without the environment: it is compiled, or has no JSON by which to say it from elsewhere."""
    spec, kwargs = _spec_and_kwargs(plan)
    if plan.render_mode is not None:
        kwargs["render_mode"] = plan.render_mode
    wrappers = (*spec.additional_wrappers, *map(as_data, plan.wrappers))
    return replace(_made_spec(spec, kwargs, plan), additional_wrappers=wrappers)


_LANES = {
    "loop": _build_loop,
    "threads": _build_threads,
    "ale": _build_ale,
    "compiled": _build_compiled,
    "processes": _build_processes,
}


def resolve(target: Target, isolation: Isolation = None) -> Target:
    """The target with its spec known: a module is imported now, a plugin loaded. Not if it is to stay behind a wall."""
    if target.kind == "url" or wall_for(target, isolation) is not None:
        return target
    if target.kind == "module":
        assert target.module is not None
        assert target.id is not None
        before = set(registry)
        _import_registering(target.module, target.id)
        try:
            return replace(target, spec=_openenv_spec(target.module, target.id) or find_spec(target.id))
        except UnregisteredEnv as error:
            raise type(error)(
                f"{str(error).rstrip('.')}. {registered_by(target.module, set(registry) - before)}"
            ) from None
    if target.kind == "source":
        assert target.module is not None
        from paddock.sources.families import SOURCES

        spec: EnvSpec = load(SOURCES[target.module])(target.id)
        return replace(target, spec=spec)
    if target.kind == "plugin":
        assert target.spec is not None
        return replace(target, spec=_load_plugin(target.spec))
    return target


def _import_registering(module: str, id: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        from paddock.sources.lookup import perhaps_meant

        raise ModuleNotFoundError(
            f"{error}. Environment registration via importing a module failed. "
            f"Check whether '{module}' contains env registration and can be imported."
            f"{perhaps_meant(module, id) if error.name == module else ''}"
        ) from error


def registered_by(module: str, new: Iterable[str] = (), *, like: str = "") -> str:
    """A sentence on the ids of a module: those ``new`` since it was imported, and those of code in it or below it.

    Its example is one that contains ``like``, if there is one.
    """
    ids = set(new)
    for spec in registry.values():
        entry = spec.entry_point if spec.entry_point is not None else spec.vector_entry_point
        code = "" if entry is None else entry_point_text(entry).partition(":")[0]
        if f"{code}.".startswith(f"{module}."):
            ids.add(spec.id)
    if not ids:
        return f"{module} registers none of its own: call paddock.register('me/Maze-v0', '{module}:Maze') in it."
    example = min(ids, key=lambda id: (like not in id, id))
    return f"{module} registers: {', '.join(sorted(ids))}. Name one, as {module}:{example}."


def _openenv_spec(module: str, name: str) -> EnvSpec | None:
    """A spec for a class of that name in the module that is an environment written for OpenEnv."""
    found = getattr(importlib.import_module(module), name, None)
    if found is None:
        return None
    from paddock.sources.openenv_classes import spec_of

    return spec_of(module, name, found)


def _load_plugin(spec: EnvSpec) -> EnvSpec:
    assert isinstance(spec.entry_point, str)
    try:
        found = load_object(spec.entry_point)
    except Exception as error:  # a plugin may raise anything when it is imported
        raise PluginError(
            f"The plugin that offers {spec.id!r} failed to load {spec.entry_point!r}: {type(error).__name__}: {error}. "
            f"Upgrade or remove the distribution that provides it."
        ) from error
    return replace(found, id=spec.id) if isinstance(found, EnvSpec) else spec


def _made_spec(spec: EnvSpec, kwargs: dict[str, Any], plan: Plan) -> EnvSpec:
    """The spec as it was really made."""
    return replace(spec, kwargs=kwargs, max_episode_steps=plan.max_steps(), disable_env_checker=not plan.validates())


def _spec_and_kwargs(plan: Plan) -> tuple[EnvSpec, dict[str, Any]]:
    spec = plan.target.spec
    assert spec is not None, "the spec is known once the plan is built"
    return spec, {**deepcopy(spec.kwargs), **plan.env_kwargs}


def _required(entry_point: Any, spec: EnvSpec, field: str) -> Any:
    if entry_point is None:
        raise InvalidSpec(f"Cannot make {spec.id!r}: its spec has no {field}. Register it with one.")
    return entry_point


def _construct(creator: Callable[..., Any], spec: EnvSpec, kwargs: dict[str, Any], kind: type = Env) -> Any:
    if kind is Env and not (isinstance(creator, type) and issubclass(creator, Env)):
        from paddock.sources.openenv_classes import adapted  # environments written for OpenEnv

        creator = adapted(creator, kwargs)
    try:
        env = creator(**kwargs)
    except TypeError as error:
        options = [field.name for field in fields(LaneOptions) if f"'{field.name}'" in str(error)]
        hint = f". Options of lanes: lanes=LaneOptions({options[0]}=…)" if options else ""
        said, place, _ = str(error).partition(" was raised from the environment creator for ")
        words = f"{said}{place or ' was raised from the environment creator for '}"  # Gymnasium says it too: once
        raise type(error)(f"{words}{spec.id} with kwargs ({kwargs}){hint}") from error
    if not isinstance(env, kind):
        raise TypeError(
            f"The environment must inherit from paddock.{kind.__name__} (paddock.gym.{kind.__name__} is the same "
            f"class), actual type: {type(env)}."
        )
    return env
