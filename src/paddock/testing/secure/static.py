"""Apply the rules that source shows to a folder, a module or files. Nothing of the target is imported."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from paddock.package.manifest import FILE, Manifest, read_manifest
from paddock.testing.finding import Finding
from paddock.testing.secure.code_rules import changed_modules, hidden_input, import_effects, used_names, variables
from paddock.testing.secure.declared import Declared
from paddock.testing.secure.found import Found, finding, findings_in
from paddock.testing.secure.info_rules import infos_in_source
from paddock.testing.secure.manifest_rules import broad, secret_variables, unused
from paddock.testing.secure.network_rules import network, timeouts
from paddock.testing.secure.path_rules import files
from paddock.testing.secure.secret_rules import secrets
from paddock.testing.secure.source import Source, sources_of
from paddock.testing.secure.uses import Names, uses_of


def find_in_folder(folder: str | os.PathLike[str]) -> list[Finding]:
    """What the source and the manifest of a package break. A manifest that can't be used is an InvalidManifest."""
    place = Path(folder).expanduser()
    if place.is_dir() and not os.path.lexists(place / FILE):
        missing = finding("no-manifest", f"{folder} has no {FILE}.")
        return [missing, *find_in_sources(sources_of(place), Declared(folder=place.resolve()))]
    manifest = read_manifest(folder)
    modules = {path for env in manifest.envs for path in manifest.modules(env.spec.id).values()}
    sources = [source for path in sorted(modules) for source in sources_of(path)]
    return [*_of_manifest(manifest, sources), *find_in_sources(sources, Declared.by(manifest), own=_own(modules))]


def find_in_module(module: str) -> list[Finding]:
    """What the source of an importable module breaks: its file, or all files of a package."""
    path = _file_of(module)
    if path is None:
        return []
    return find_in_sources(sources_of(path), Declared(), own=frozenset({module.partition(".")[0]}))


def find_in_sources(
    sources: Iterable[Source], declared: Declared, *, own: frozenset[str] = frozenset()
) -> list[Finding]:
    """What these files break. ``own`` are the names of the target's own top-level modules."""
    findings: list[Finding] = []
    for source in sources:
        found = [Found("unread-source", source.fault)] if source.tree is None else _all(source, declared, own)
        findings += findings_in(source.name, found, dict(enumerate(source.lines, start=1)))
    return findings


def _all(source: Source, declared: Declared, own: frozenset[str]) -> list[Found]:
    try:
        return list(_rules(source, declared, own))
    except RecursionError:
        return [Found("unread-source", "an expression is nested too deeply")]


def _rules(source: Source, declared: Declared, own: frozenset[str]) -> Iterator[Found]:
    tree = source.tree
    assert tree is not None
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


def _of_manifest(manifest: Manifest, sources: Iterable[Source]) -> list[Finding]:
    read = [source.tree for source in sources if source.tree is not None]
    try:
        used = {use.name for tree in read for use in uses_of(tree, Names(ast.walk(tree)))}
    except RecursionError:
        used = set()
    found = [*broad(manifest), *secret_variables(manifest)]
    return findings_in(FILE, [*found, *unused(manifest, used)], {})


def _own(modules: Iterable[Path]) -> frozenset[str]:
    return frozenset(path.name.partition(".")[0] for path in modules)


def _file_of(module: str) -> Path | None:
    """The module's file, or its folder if it is a package; parents are looked through, not imported."""
    top, *inner = module.split(".")
    try:
        found = importlib.util.find_spec(top)
    except (ValueError, ImportError):
        return None
    if found is None:
        return None
    if found.submodule_search_locations is None:
        return Path(found.origin) if found.origin and Path(found.origin).is_file() else None
    for folder in map(Path, found.submodule_search_locations):
        place = folder.joinpath(*inner)
        for path in (place, place.with_name(f"{place.name}.py")):
            if path.is_dir() or path.is_file():
                return path
    return None
