"""What goes behind a wall to make an environment there: plain data, and the files of the code that it names.

No callable crosses. What has no form as data is a PlanError that names it, before anything is started.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from paddock.core.spec import EnvSpec, WrapperSpec, entry_point_text
from paddock.errors import NotTransferable, PlanError
from paddock.hosting.values import to_wire
from paddock.making.code_files import code_of
from paddock.making.plan import Plan
from paddock.making.target import Target
from paddock.making.wrapper_stack import as_data, name_of
from paddock.sandbox.policy import Policy
from paddock.sources.families import is_installed, library_family, modules_of
from paddock.sources.openenv_classes import RECORD_CLASSES
from paddock.sources.their_errors import importing


@dataclass(frozen=True)
class Crossing:
    """``what`` is for the Make request; ``modules`` (name and path) and ``folder`` are shown to the worker."""

    what: dict[str, Any]
    modules: dict[str, str]
    folder: str | None


def crossing(plan: Plan) -> Crossing:
    """Everything that a worker behind a wall needs to know of this plan."""
    target, spec = plan.target, plan.target.spec
    kwargs = {**(spec.kwargs if spec is not None else {}), **plan.env_kwargs}
    inner = [] if spec is None else list(spec.additional_wrappers)
    wrappers = [_wrapper(one) for one in (*inner, *(_as_data(one) for one in plan.wrappers))]
    what = {
        "kind": target.kind,
        "text": target.text,
        "module": target.module,
        "id": target.id,
        "spec": None if spec is None else _bare(spec).to_json(),
        "kwargs": kwargs,
        "wrappers": wrappers,
        "validate": plan.validate,
        "strict": plan.strict,
        "max_episode_steps": plan.max_episode_steps,
        "render_mode": plan.render_mode,
    }
    for name, value in kwargs.items():
        _check_crosses(value, name)
    for name, _, given in wrappers:
        _check_crosses(given, f"{name}'s arguments")
    return Crossing(what, {} if target.folder else _modules(target, wrappers), target.folder)


def seeing(folder: str | None, policy: Policy) -> Policy:
    """The policy with a folder that has a manifest: that one is shown as a whole, where it is."""
    return policy if folder is None else replace(policy, read=(*policy.read, folder))


def _bare(spec: EnvSpec) -> EnvSpec:
    """Without what crosses apart from it: arguments and wrappers, which may hold more than JSON can."""
    entry_point = spec.entry_point
    if entry_point is not None:
        entry_point = _text_of(entry_point, f"The entry point of {spec.id!r}")
    vector = _vector_text(spec)
    return replace(spec, entry_point=entry_point, vector_entry_point=vector, kwargs={}, additional_wrappers=())


def _vector_text(spec: EnvSpec) -> str | None:
    """The environment's own vector form, if it has one that can be named; lanes are stepped in a loop otherwise."""
    text = None if spec.vector_entry_point is None else entry_point_text(spec.vector_entry_point)
    return None if text is None or _only_here(text) else text


def _as_data(wrapper: Any) -> WrapperSpec:
    entry = as_data(wrapper)
    if entry.kwargs is None:
        raise PlanError(
            f"The wrapper {name_of(wrapper)} is code of this process, and code does not go behind a wall. Pass a "
            f"wrapper class or Wrapper.wrapper_spec(...), or wrap the result of make()."
        )
    return replace(entry, entry_point=_text_of(entry.entry_point, f"The wrapper {entry.name}"))


def _wrapper(entry: WrapperSpec) -> list[Any]:
    if entry.kwargs is None:
        raise PlanError(
            f"The wrapper {entry.name} of the spec did not record its arguments, so it can't be made again."
        )
    return [entry.name, entry.entry_point, entry.kwargs]


def _text_of(entry_point: Any, who: str) -> str:
    text = entry_point_text(entry_point)
    if _only_here(text):
        raise PlanError(
            f"{who} is {text}, which only this process has, and code does not go behind a wall. Put it into a module "
            f"of its own and name it 'module:Class'."
        )
    return text


def _only_here(text: str) -> bool:
    return "<" in text or text.startswith(("__main__:", "?"))


def _check_crosses(value: Any, name: str) -> None:
    try:
        to_wire(value, [], name=name)
    except NotTransferable as error:
        raise PlanError(
            f"{error} So it can't go behind the wall: pass plain data, or drop isolation if this code is your own."
        ) from None


def _modules_of_source(source: str, id: str) -> list[str]:
    own = id.rpartition(":")[0].partition(".")[0]
    named = modules_of(source, id)
    with importing(library_family(source, id), id):
        if own and not is_installed(own):  # as an import on this side of the wall would say
            raise ModuleNotFoundError(f"No module named {own!r}", name=own)
    return named


def _modules(target: Target, wrappers: list[list[Any]]) -> dict[str, str]:
    named = [] if target.module is None else [target.module]
    if target.kind == "source" and target.id is not None:
        named = _modules_of_source(named[0], target.id)
    if target.spec is not None and target.spec.entry_point is not None:
        named.append(entry_point_text(target.spec.entry_point).partition(":")[0])
    if target.spec is not None and (vector := _vector_text(target.spec)) is not None:
        named.append(vector.partition(":")[0])
    if target.spec is not None:  # an environment written for OpenEnv, with the classes of its records
        records = (target.spec.kwargs.get(name) for name in RECORD_CLASSES)
        named += [path.partition(":")[0] for path in records if isinstance(path, str)]
    named += [entry_point.partition(":")[0] for _, entry_point, _ in wrappers]
    return {
        name: path for module in named if not module.startswith("gymnasium.") for name, path in code_of(module).items()
    }
