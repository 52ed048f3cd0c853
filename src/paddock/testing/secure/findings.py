"""Apply the security rules: to a folder or a module, whose code is read but never imported, and to a run."""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from paddock.core.env import Env
from paddock.errors import EnvironmentViolation
from paddock.hosting.judge import WallRules
from paddock.hosting.untrusted import ValueCheck
from paddock.package import FILE, OPENENV_FILE, Manifest, find_module, read_manifest
from paddock.sandbox.policy import DEFAULT, Policy, covers
from paddock.testing.probes import sample_allowed
from paddock.testing.rules import Finding, finding
from paddock.testing.secure.source import Names, Source, sources_of, uses_of
from paddock.testing.secure.source_rules import (
    NETWORK,
    PROCESSES,
    VARIABLES,
    Breach,
    Declared,
    answers_in,
    changed_modules,
    entry_for,
    files,
    findings_in,
    hidden_input,
    import_effects,
    infos_in_source,
    network,
    secrets,
    secrets_among,
    timeouts,
    used_names,
    variables,
)
from paddock.testing.watched import in_numpy


def find_in_folder(folder: str | os.PathLike[str]) -> list[Finding]:
    """Check the source and the manifest of a package. A manifest that can't be used is an InvalidManifest."""
    place = Path(folder).expanduser()
    if place.is_dir() and not any(os.path.lexists(place / name) for name in (FILE, OPENENV_FILE)):
        missing = finding("no-manifest", f"{folder} has no {FILE}.")
        return [missing, *find_in_sources(sources_of(place), Declared(folder=place.resolve()))]
    manifest = read_manifest(folder)
    modules = {path for env in manifest.envs for path in manifest.modules(env.spec.id).values()}
    sources = [source for path in sorted(modules) for source in sources_of(path)]
    try:
        trees = [source.tree for source in sources if source.tree is not None]
        used = {use.name for tree in trees for use in uses_of(tree, Names(ast.walk(tree)))}
    except RecursionError:
        used = set()
    breaches = [*broad(manifest), *secret_variables(manifest), *find_unused(manifest, used)]
    own = frozenset(path.name.partition(".")[0] for path in modules)
    return [*findings_in(FILE, breaches, {}), *find_in_sources(sources, Declared.by(manifest), own=own)]


def find_in_module(module: str) -> list[Finding]:
    """Check the source of an importable module: its file, or all files of a package."""
    path = find_module(module)
    if path is None:
        return []
    return find_in_sources(sources_of(path), Declared(), own=frozenset({module.partition(".")[0]}))


def find_in_sources(
    sources: Iterable[Source], declared: Declared, *, own: frozenset[str] = frozenset()
) -> list[Finding]:
    """Check these files. ``own`` are the names of the target's own top-level modules."""
    findings: list[Finding] = []
    for source in sources:
        try:
            unread = [Breach("unread-source", source.fault)]
            breaches = unread if source.tree is None else list(_breaches(source.tree, declared, own))
        except RecursionError:
            breaches = [Breach("unread-source", "an expression is nested too deeply")]
        findings += findings_in(source.name, breaches, dict(enumerate(source.lines, start=1)))
    return findings


def _breaches(tree: ast.Module, declared: Declared, own: frozenset[str]) -> Iterator[Breach]:
    nodes = list(ast.walk(tree))  # once: this is most of the time
    names = Names(nodes)
    uses = uses_of(tree, names)
    yield from import_effects(uses)
    yield from used_names(uses)
    yield from network(uses, declared)
    yield from timeouts(uses)
    yield from hidden_input(uses, declared)
    yield from files(uses, names, declared)
    yield from variables(nodes, uses, names, declared)
    yield from secrets(nodes)
    yield from changed_modules(nodes, names, own)
    yield from infos_in_source(nodes)


# ── Manifests: permissions that are too broad, or more than the source seems to use ──

# Names of functions and methods that open files, whatever they belong to.
_FILES = frozenset(
    {
        *("open", "read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "listdir", "scandir", "glob"),
        *("walk", "connect", "load", "loadtxt", "save", "savez", "savetxt", "memmap", "read_csv", "imread"),
        "from_pretrained",
    }
)
# Too broad: one of these folders, or a folder that contains one.
_SYSTEM = ("/dev", "/var", "/home", "/Users", "/usr", "/bin", "/lib", "/opt", "/srv", "/mnt")
# Too broad: anything in these folders.
_PRIVATE = ("/etc", "/proc", "/sys", "/run", "/var/run", "/root", "/boot")


def broad(manifest: Manifest) -> Iterator[Breach]:
    """Find permissions that are too broad; a workspace's too."""
    code = {path for env in manifest.envs for path in manifest.modules(env.spec.id).values()}
    for place, policy in _each(manifest.permissions, "permissions"):
        for host in policy.hosts:
            if host.startswith("*:"):
                yield Breach("permission-broad", f"{place}: hosts has {host!r}, which is every host")
        for field in ("read", "write"):
            for path in getattr(policy, field):
                if _is_system_or_home(path):
                    yield Breach("permission-broad", f"{place}: {field} has {path!r}, the system's or a user's own")
        for path in policy.write:
            if any(covers(path, str(one)) or covers(str(one), path) for one in code):
                yield Breach("permission-broad", f"{place}: write has {path!r}, where its own code is")
        if policy.devices:
            yield Breach("permission-broad", f"{place}: devices weaken the wall for {', '.join(policy.devices)}")
        if policy.tier != DEFAULT.tier:
            yield Breach(
                "permission-broad",
                f"{place}: tier = {policy.tier!r} is a weaker wall; that is for whoever runs it to decide",
            )


def secret_variables(manifest: Manifest) -> Iterator[Breach]:
    """Find secrets in the manifest itself."""
    for place, policy in _each(manifest.permissions, "permissions"):
        for name in secrets_among(policy.variables):
            yield Breach("secret-in-source", f"{place}: variables holds the value of {name}")


def find_unused(manifest: Manifest, names: Iterable[str]) -> Iterator[Breach]:
    """Find permissions that nothing in the source seems to need."""
    policy, used = manifest.permissions, set(names)
    last = {name.rpartition(".")[2] for name in used}
    if policy.hosts and not any(entry_for(name, NETWORK) for name in used):
        yield Breach("permission-unused", "permissions: hosts, but nothing here uses the network")
    if policy.variables and not any(entry_for(name, VARIABLES) for name in used):
        yield Breach("permission-unused", "permissions: variables, but nothing here reads any")
    if policy.workspaces and not any("workspace" in name for name in last):
        yield Breach("permission-unused", "permissions: workspaces, but nothing here asks for one")
    if (policy.programs or policy.processes > 1) and not any(entry_for(name, PROCESSES) for name in used):
        yield Breach("permission-unused", "permissions: programs or processes, but nothing here starts one")
    if (policy.write or policy.read) and not last & _FILES:
        yield Breach("permission-unused", "permissions: read or write, but nothing here opens a file")


def _each(policy: Policy, place: str) -> Iterator[tuple[str, Policy]]:
    yield place, policy
    if policy.workspace is not None:
        yield from _each(policy.workspace, f"{place}.workspace")


def _is_system_or_home(path: str) -> bool:
    parts = Path(path).parts
    home = path == str(Path.home()) or (len(parts) == 3 and parts[1] in ("home", "Users"))
    return home or any(covers(path, one) for one in _SYSTEM) or any(covers(one, path) for one in _PRIVATE)


# ── Runs: rewards and infos, judged as the wall will judge them ──

STEPS = 100
_SEED = 123


def find_at_run_time(env: Env[Any, Any], policy: Policy = DEFAULT, *, steps: int = STEPS) -> list[Finding]:
    """Check the rewards and infos of some steps, each rule once. If the environment raises, the check ends quietly.

    For an environment that follows the API: ``find`` reports one that does not.
    """
    found: dict[str, Finding] = {}
    try:
        for rule, message in _find_broken(in_numpy(env), policy, steps):
            found.setdefault(rule, finding(rule, message))
    except EnvironmentViolation as error:  # it is behind a wall already, which refused
        rule = "reward-outside" if error.path == "reward" else "info-refused"
        # Not for a reward that is not a finite number: `find` reports that.
        if error.path.startswith(("reward", "info")) and not error.rule:
            found.setdefault(rule, finding(rule, str(error)))
    except Exception:  # `find` reports it, with its place
        return list(found.values())
    return list(found.values())


def _find_broken(env: Env[Any, Any], policy: Policy, steps: int) -> Iterator[tuple[str, str]]:
    rules = WallRules.of(policy)
    _, info = env.reset(seed=_SEED)
    env.action_space.seed(_SEED)
    yield from _info(info, rules, "reset")
    low, high = policy.reward_range
    for number in range(1, steps + 1):
        _, reward, terminated, truncated, info = env.step(sample_allowed(env.action_space, info))
        if math.isfinite(reward) and not low <= float(reward) <= high:
            yield "reward-outside", f"The reward {reward!r} of step {number} is not in [{low:g}, {high:g}]."
        yield from _info(info, rules, f"step {number}")
        if terminated or truncated:
            _, info = env.reset()
            yield from _info(info, rules, "reset")


def _info(info: Any, rules: WallRules, when: str) -> Iterator[tuple[str, str]]:
    try:
        ValueCheck("info", rules.info).read(info)
    except EnvironmentViolation as error:
        yield "info-refused", f"{error} ({when})"
    for path in answers_in(info):
        yield "info-tells", f"{path} ({when}) sounds like what the agent has to find out."
