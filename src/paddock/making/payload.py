"""What goes behind a wall to make an environment there: plain data, and the files of the code that it names.

No callable is sent. What has no form as data raises a PlanError that names it, before anything is started.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddock.core.spec import EnvSpec, WrapperSpec, entry_point_text
from paddock.errors import NotTransferable, PaddockError, PlanError
from paddock.hosting.factories import modules_in
from paddock.hosting.values import to_wire
from paddock.making.plan import Plan, WrapperLike, as_wrapper_spec
from paddock.making.target import Target
from paddock.sandbox.mounts import Mount
from paddock.sandbox.plan import LAYERS, Call
from paddock.sandbox.plan import plan as plan_launch
from paddock.sandbox.policy import Policy, explain
from paddock.sources.families import is_installed, library_family, modules_of
from paddock.sources.foreign import importing
from paddock.sources.openenv_classes import CODE_ARGUMENTS

WORKER = "paddock.making.sandbox_worker:main"  # what serves an environment behind a wall


@dataclass(frozen=True)
class Payload:
    """``what`` is for the Make request; ``modules`` (name and path) and ``folders`` are made visible to the worker.

    ``code`` is the module that the worker will import to make it, if that is known here.
    """

    what: dict[str, Any]
    modules: dict[str, str]
    folders: tuple[str, ...] = ()
    code: str | None = None


def pack(plan: Plan) -> Payload:
    """Pack everything that a worker behind a wall needs to build this plan."""
    target, spec = plan.target, plan.target.spec
    kwargs = {**(spec.kwargs if spec is not None else {}), **plan.env_kwargs}
    inner = [] if spec is None else list(spec.additional_wrappers)
    wrappers = [_pack_wrapper(one) for one in (*inner, *plan.wrappers)]
    what = {
        "kind": target.kind,
        "text": target.text,
        "module": target.module,
        "id": target.id,
        "folder": target.folder,
        "spec": None if spec is None else _bare(spec).to_json(),
        "kwargs": kwargs,
        "wrappers": wrappers,
        "validate": plan.validate,
        "strict": plan.strict,
        "max_episode_steps": plan.max_episode_steps,
        "render_mode": plan.render_mode,
    }
    for name, value in kwargs.items():
        _check_transferable(value, name)
    for name, _, arguments in wrappers:
        _check_transferable(arguments, f"{name}'s arguments")
    code = target.module if target.kind == "module" else None
    if spec is not None and spec.entry_point is not None:
        code = entry_point_text(spec.entry_point).partition(":")[0]
    return Payload(what, {} if target.folder else _modules(target, wrappers), target.folders, code)


def with_folders(folders: tuple[str, ...], policy: Policy) -> Policy:
    """Add read access to a folder with a manifest, and its dependencies: a worker sees all of it, in its place."""
    return replace(policy, read=(*policy.read, *folders)) if folders else policy


def _bare(spec: EnvSpec) -> EnvSpec:
    """Strip what is sent apart from the spec: arguments and wrappers, which may hold more than JSON can."""
    entry_point = spec.entry_point
    if entry_point is not None:
        entry_point = _text_of(entry_point, f"The entry point of {spec.id!r}")
    vector = _vector_text(spec)
    return replace(spec, entry_point=entry_point, vector_entry_point=vector, kwargs={}, additional_wrappers=())


def _vector_text(spec: EnvSpec) -> str | None:
    """Name the environment's own vector form, if that is possible; otherwise lanes are stepped in a loop."""
    text = None if spec.vector_entry_point is None else entry_point_text(spec.vector_entry_point)
    return None if text is None or _only_here(text) else text


def _pack_wrapper(wrapper: WrapperLike) -> list[Any]:
    entry = as_wrapper_spec(wrapper)
    if entry.kwargs is None and isinstance(wrapper, WrapperSpec):
        raise PlanError(f"The wrapper {entry.name} did not record its arguments, so it can't be made again.")
    if entry.kwargs is None:
        raise PlanError(
            f"The wrapper {entry.name} is code of this process, and code does not go behind a wall. Pass a wrapper "
            f"class or Wrapper.wrapper_spec(...), or wrap the result of make()."
        )
    return [entry.name, _text_of(entry.entry_point, f"The wrapper {entry.name}"), entry.kwargs]


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


def _check_transferable(value: Any, name: str) -> None:
    try:
        to_wire(value, [], name=name)
    except NotTransferable as error:
        raise PlanError(
            f"{error} So it can't go behind the wall: pass plain data, or drop isolation if you trust this code."
        ) from None


def _modules(target: Target, wrappers: list[list[Any]]) -> dict[str, str]:
    named = [] if target.module is None else [target.module]
    if target.kind == "source" and target.id is not None:
        source, own = named[0], target.id.rpartition(":")[0].partition(".")[0]
        named = modules_of(source, target.id)
        with importing(library_family(source, target.id), target.id):
            if own and not is_installed(own):  # as an import on this side of the wall would say
                raise ModuleNotFoundError(f"No module named {own!r}", name=own)
    if target.spec is not None and target.spec.entry_point is not None:
        named.append(entry_point_text(target.spec.entry_point).partition(":")[0])
    if target.spec is not None and (vector := _vector_text(target.spec)) is not None:
        named.append(vector.partition(":")[0])
    if target.spec is not None:  # an environment written for OpenEnv, with the classes of its records
        for code in (target.spec.kwargs.get(name) for name in CODE_ARGUMENTS):
            named += [code.partition(":")[0]] if isinstance(code, str) else []
            named += modules_in(code) if isinstance(code, bytes) else []
    named += [entry_point.partition(":")[0] for _, entry_point, _ in wrappers]
    return {
        name: path
        for module in named
        if not module.startswith("gymnasium.")
        for name, path in locate_code(module).items()
    }


def locate_code(module: str) -> dict[str, str]:
    """Return name and path of the top-level module or package that has ``module``; empty if every worker has it.

    Imports nothing: the finders look at files, and only for the top-level name.
    """
    name = module.partition(".")[0]
    if name == "__main__":
        raise PlanError(
            "A sandbox can't see code in the program's own file (__main__). Put the environment into a module of its "
            "own."
        )
    if name == "paddock" or name in sys.stdlib_module_names:
        return {}
    path = _path_of(module, name)
    return {} if _is_installed(path) else {name: path}


def find_loaded_beside(paths: Iterable[str]) -> dict[str, str]:
    """Return what this process has imported from the folders of ``paths``, by top-level name: code of one project."""
    folders = {Path(path).parent for path in paths}
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if "." in name or name == "__main__" or not isinstance(origin, str):
            continue
        place = Path(origin).resolve()
        place = place.parent if place.name == "__init__.py" else place
        if place.parent in folders and place.exists() and not _is_installed(str(place)):
            found[name] = str(place)
    return found


def _path_of(module: str, name: str) -> str:
    try:
        found = importlib.util.find_spec(name)
    except ValueError:  # in sys.modules without a spec
        found = None
    if found is None:
        raise ModuleNotFoundError(
            f"No module named {name!r}. Environment registration via importing a module failed. "
            f"Check whether '{module}' contains env registration and can be imported."
        )
    if found.submodule_search_locations:  # empty for a file that acts as a package, such as six
        folders = [Path(one) for one in found.submodule_search_locations]
        inner = module.split(".")[1:]
        for folder in folders:  # of a namespace package, the part that holds this module
            place = folder.joinpath(*inner)
            if place.is_dir() or place.with_name(place.name + ".py").is_file():
                return str(folder.resolve())
        return str(folders[0].resolve())
    if found.origin is None or not Path(found.origin).is_file():
        raise PlanError(f"The code of {name!r} is not a file ({found.origin}), so a sandbox can't see it.")
    return str(Path(found.origin).resolve())


def _is_installed(path: str) -> bool:
    places = {sysconfig.get_path(one) for one in ("purelib", "platlib", "stdlib", "platstdlib")}
    return any(Path(path).is_relative_to(Path(place).resolve()) for place in places if place)


def wall_lines(plan: Plan, policy: Policy) -> list[tuple[str, str]]:
    """Describe the wall for ``explain``: what the code may do, and which files it sees. Imports nothing."""
    rows = [(f"may: {line.topic}", line.text) for line in explain(policy)]
    try:
        sent = pack(plan)
        planned = plan_launch(Call(WORKER, modules=sent.modules), with_folders(sent.folders, policy))
    except (PaddockError, ModuleNotFoundError) as error:
        return [*rows, ("sees", f"unknown: {error}")]
    by = {
        "bwrap": "bubblewrap",
        "container": "a container engine",
        "native": "paddock's own launcher",
        None: "the worker itself",
    }[planned.backend]
    rows.append(("wall", f"{planned.tier} by {by}: {', '.join(one for one in LAYERS if one in planned.layers)}"))
    if planned.backend == "bwrap" and not planned.machine.counts_files("bwrap"):
        rows.append(
            ("not limited", "the number of files in its scratch folder: bubblewrap can't, and there is no cgroup")
        )
    return rows + [("sees", _mount_text(one)) for one in planned.mounts if one.how not in ("link", "empty", "list")]


def _mount_text(mount: Mount) -> str:
    if mount.how == "scratch":
        return f"{mount.target} (its own, empty at the start)"
    if mount.how == "proc":
        return f"{mount.target} (its own processes)"
    kind = {"ro": "read only", "rw": "writable", "dev": "device"}[mount.how]
    return f"{mount.source} ({kind})" if mount.source == mount.target else f"{mount.source} as {mount.target} ({kind})"
