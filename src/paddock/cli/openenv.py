"""``paddock openenv``: OpenEnv's own commands, with its arguments, files and reports.

Nothing of a folder is imported or run here: ``validate`` reads it, ``serve`` runs it behind the wall, and ``build``
leaves it to a container engine.
"""

from __future__ import annotations

import ast
import hashlib
import json
import keyword
import re
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from paddock.cli import serve
from paddock.cli.build import build_image, find_engine
from paddock.cli.init import TEMPLATES, check_free, fill_template, write_files
from paddock.cli.output import FAILED, OK, CommandFailed, Output, error_message, mistake, to_json_data
from paddock.cli.program import add_json, seconds
from paddock.cli.ps import ServerAt
from paddock.package.openenv import CALLS, read_yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "openenv.yaml"
_MOST_BYTES = 1 << 20
_FOLDER = "the environment's folder (default: this one)"


def add_arguments(parser: ArgumentParser) -> None:
    """The four commands, each with OpenEnv's options."""
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", dest="action", required=True)
    for action, (_, words) in ACTIONS.items():
        own = actions.add_parser(action, help=words, description=words, allow_abbrev=False)
        add_json(own)
        _add_options(action, own)


def run(arguments: Namespace, output: Output) -> int:
    """Run one of them."""
    code: int = ACTIONS[arguments.action][0](arguments, output)
    return code


def _add_options(action: str, parser: ArgumentParser) -> None:
    add = parser.add_argument
    if action == "init":
        add("name", metavar="ENV_NAME", help="a Python name in snake_case, such as my_env")
        add("-o", "--output-dir", type=Path, default=Path(), metavar="DIR", help="where to make its folder")
    elif action == "build":
        add("path", nargs="?", type=Path, default=Path(), metavar="PATH", help=_FOLDER)
        add("-t", "--tag", help="the image's name (default: openenv- and the folder's name without _env)")
        add("-c", "--context", type=Path, metavar="DIR", help="what the build may copy (default: PATH)")
        add("-f", "--dockerfile", type=Path, metavar="FILE", help="default: PATH/server/Dockerfile, or PATH/Dockerfile")
        add("--no-cache", action="store_true", help="build every layer again")
        add("--build-arg", action="append", default=[], metavar="K=V", help="an ARG of the Dockerfile; repeatable")
    elif action == "serve":
        add("path", nargs="?", type=Path, default=Path(), metavar="PATH", help=_FOLDER)
        add("--reload", action="store_true", help="refused: restart the command after a change")
        serve.add_options(parser)
    else:
        add("target", nargs="?", metavar="TARGET", help=f"{_FOLDER}, or a server's URL")
        add("--url", metavar="URL", help="check a running server instead of a folder")
        add("--level", default="static", choices=["static", "runtime", "semantic"], help="static is all that is here")
        add("--local", action="store_true", help="TARGET is a folder, which is the default")
        add("--skip-build", action="store_true", help="build no image, which is the default")
        add("--policy", default="v1", metavar="VERSION", help="severities of the checks; v1 is all that is here")
        add("--output", type=Path, metavar="FILE", help="write the report as JSON, too")
        add("--timeout", type=seconds, default=5.0, metavar="S", help="for one request to a server (default 5)")
        add("--token", metavar="TOKEN", help="for a server that wants one (default: PADDOCK_TOKEN)")
        add("--ca", metavar="FILE", help="certificates to trust, PEM (default: the system's)")


# ── init ──


def _init(arguments: Namespace, output: Output) -> int:
    name = arguments.name
    if not name.isidentifier() or keyword.iskeyword(name):
        raise mistake(f"{name[:80]!r} is not a Python name. Use snake_case, such as 'my_env'.")
    base = name.removesuffix("_env") or name
    words = {"name": name, "Name": "".join(map(str.capitalize, base.split("_"))), "image": f"openenv-{base.lower()}"}
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    folder = arguments.output_dir / name
    check_free(folder)
    texts = {}
    for file in sorted((TEMPLATES / "openenv").rglob("*.in")):
        path = file.relative_to(TEMPLATES / "openenv").with_suffix("").as_posix().replace("@name@", name)
        texts[path] = fill_template(str(file), words)
    write_files(folder, texts)
    if output.json:
        output.document({"folder": str(folder), "environment": name, "files": list(texts)})
        return OK
    for path in texts:
        output.line(str(folder / path))
    output.line()
    output.facts(
        [
            (f"paddock openenv validate {folder}", "its files"),
            (f"paddock openenv serve {folder}", "behind the wall"),
            (f"paddock openenv build {folder}", "an image, with docker or podman"),
            (f"uv lock --directory {folder}", "pin what it depends on"),
        ]
    )
    return OK


# ── build and serve ──


def _build(arguments: Namespace, output: Output) -> int:
    folder = _package(arguments.path)
    files = [arguments.dockerfile] if arguments.dockerfile else [folder / "server/Dockerfile", folder / "Dockerfile"]
    file = next((file.resolve() for file in files if file.is_file()), None)
    if file is None:
        raise mistake(f"There is no Dockerfile at {' or '.join(map(str, files))}. Name it with --dockerfile.")
    for argument in arguments.build_arg:
        if not argument.partition("=")[1]:
            raise mistake(f"--build-arg {argument[:80]!r} has no '='. Expected KEY=VALUE.")
    base = folder.name.removesuffix("_env") or folder.name
    tag = arguments.tag or f"openenv-{base.lower()}"
    words = ["-f", str(file), *(["--no-cache"] if arguments.no_cache else [])]
    for argument in (*arguments.build_arg, "BUILD_MODE=standalone", f"ENV_NAME={base}"):
        words += ["--build-arg", argument]
    context = (arguments.context or folder).resolve()
    engine = find_engine()
    build_image(engine, tag, [*words, str(context)])
    facts = {"image": tag, "engine": engine.command[0], "context": str(context), "dockerfile": str(file)}
    output.report(facts, f"built {tag}")
    return OK


def _serve(arguments: Namespace, output: Output) -> int:
    if arguments.reload:
        raise mistake("--reload is not possible: a session keeps the code it began with. Restart the command instead.")
    arguments.targets = [str(_package(arguments.path))]
    return serve.run(arguments, output)


def _package(path: Path) -> Path:
    if not path.is_dir():
        raise mistake(f"{path} is not a folder.")
    if not (path / FILE).is_file():
        raise mistake(f"{path} has no {FILE}, so it is not an OpenEnv environment.")
    return path.resolve()


def _read(file: Path) -> str:
    with file.open("rb") as stream:
        return stream.read(_MOST_BYTES).decode(errors="replace")


# ── validate, a server ──


def _validate(arguments: Namespace, output: Output) -> int:
    target, url = arguments.target, arguments.url
    if target is not None and re.match("https?://", target.strip(), re.IGNORECASE):
        if url is not None and url != target:
            raise mistake("TARGET and --url name two servers. Give one.")
        target, url = None, target
    if url is not None and (target is not None or arguments.local):
        raise mistake("--url is for a running server. Drop it, or drop TARGET and --local.")
    if arguments.level != "static" or arguments.policy != "v1":
        raise mistake(
            "Only --level static and --policy v1 are here: the others build and run the image. "
            "To check what runs, serve it and use --url; for the rules of safe environments, paddock check."
        )
    if url is not None:
        arguments.url = url.strip() if "://" in url else f"http://{url.strip()}"
        report = probe(ServerAt(arguments, insecure=True), arguments.timeout)
        passed, lines = report["passed"], _lines(report["criteria"], "id", "details")
    else:
        report = validate_folder(Path(target or "."))
        passed, lines = report["verdict"] != "fail", _lines(report["results"], "check_id", "evidence")
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(to_json_data(report), indent=2) + "\n", encoding="utf-8")
    if output.json:
        output.document(report)
    else:
        for line in lines:
            output.line(line)
        output.line(f"{report['target']}: {report.get('verdict') or ('pass' if passed else 'fail')}")
    return OK if passed else FAILED


def _lines(results: list[dict[str, Any]], id: str, why: str) -> Iterator[str]:
    for one in results:
        status = one.get("status") or ("pass" if one["passed"] else "fail")
        yield f"{status.upper()}  {one[id]}"
        found = one.get(why) or f"expected {one.get('expected')}, got {one.get('actual')}"
        if status != "pass":
            yield from (f"      {line}" for line in ([found] if isinstance(found, str) else found))


def probe(server: ServerAt, timeout_s: float) -> dict[str, Any]:
    """Ask a running server what every OpenEnv server answers, and return OpenEnv's report."""
    criteria: list[dict[str, Any]] = []
    documents = {}
    for id, method, path, fields in _PROBES:
        kinds = {name: want.__name__ if isinstance(want, type) else want for name, want in fields.items()}
        expected = {"status_code": 200, **kinds}
        words = f"{method} {path} is answered as OpenEnv does"
        one: dict[str, Any] = {"id": id, "description": words, "passed": False, "required": True, "expected": expected}
        try:
            status, value = server.send(method, path, {} if method == "POST" else None, limit_s=timeout_s)
        except CommandFailed as error:
            one["details"] = f"Request failed: {error_message(error)}"
        else:
            got = {name: _at(value, name) for name in fields}
            right = (
                isinstance(got[name], want) if isinstance(want, type) else got[name] == want
                for name, want in fields.items()
            )
            one["passed"] = status == 200 and all(right)
            # A whole schema would be all that is shown.
            plain = {name: type(found).__name__ if isinstance(found, dict) else found for name, found in got.items()}
            one["actual"] = {"status_code": status, **plain}
            documents[path] = value if one["passed"] else {}
        criteria.append(one)
    document = documents.get("/openapi.json") or {}
    version = document.get("info", {}).get("version", "unknown")
    mode, consistency = _mode(document.get("paths"))
    criteria.append(consistency)
    failed = [one["id"] for one in criteria if not one["passed"]]
    counts = {"passed_count": len(criteria) - len(failed), "total_count": len(criteria), "failed_criteria": failed}
    required = {f"required_{name}": counts[name] for name in ("passed_count", "total_count")}
    return {
        "target": str(server.address),
        "validation_type": "running_environment",
        "standard_version": version,
        "standard_profile": f"openenv-http/{'1.x' if version.startswith('1.') else 'unknown'}",
        "mode": mode,
        "passed": not failed,
        "summary": counts | required,
        "criteria": criteria,
    }


def _mode(paths: object) -> tuple[str, dict[str, Any]]:
    """Tell the server's mode by its routes: all three of an episode, or none."""
    routes = {path: isinstance(paths, dict) and path in paths for path in ("/reset", "/step", "/state")}
    words = "The routes are those of one mode"
    one = {"id": "mode_endpoint_consistency", "description": words, "passed": False, "required": True}
    if not isinstance(paths, dict) or not paths:
        return "unknown", {**one, "details": "Cannot determine mode without OpenAPI paths"}
    simulated = routes["/reset"]
    one |= {"passed": set(routes.values()) == {simulated}, "expected": dict.fromkeys(routes, simulated)}
    return "simulation" if simulated else "production", {**one, "actual": routes}


# What each route answers: fields, and their value or type.
_PROBES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("openapi_version_available", "GET", "/openapi.json", {"info.version": str}),
    ("health_endpoint", "GET", "/health", {"status": "healthy"}),
    ("metadata_endpoint", "GET", "/metadata", {"name": str, "description": str}),
    ("schema_endpoint", "GET", "/schema", {"action": dict, "observation": dict, "state": dict}),
    ("mcp_endpoint", "POST", "/mcp", {"jsonrpc": "2.0"}),
)


def _at(value: Any, path: str) -> Any:
    """Return what is at ``info.version``, None if there is nothing."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


# ── validate, a folder ──


def validate_folder(folder: Path) -> dict[str, Any]:
    """Read the folder and return OpenEnv's report at level static, by its policy v1."""
    _package(folder)
    began = time.monotonic()
    report: dict[str, Any] = {"report_schema_version": "1", "target": str(folder), "source_digest": ""}
    declared = manifest = None
    problems: list[str] = []
    measured: dict[str, Any] = {}
    status = "fail"
    try:
        report["source_digest"] = source_digest(folder)
        declared = read_yaml(folder / FILE)
        manifest = _manifest(declared)
        problems, measured = _beyond_bounds(manifest)
    except OSError as error:
        status, problems = "error", [f"the folder can't be read: {error_message(error)}"]
    except (msgspec.MsgspecError, ValueError) as error:
        problems = list(map(str, error.args))
        measured = {"schema_errors": len(problems)}
    fix = f"Declare reward, resources, capabilities and types under `validation:` in {FILE}." if problems else None
    results = [_result("static.manifest", status, problems, measured, fix, began)]
    issues: list[str] = []
    if report["source_digest"]:  # else it may have links, which lead anywhere
        began = time.monotonic()
        issues, modes = _layout(folder, _at(declared, "app") or "server.app:app")
        results.append(_result("static.layout", "fail", issues, {"deployment_modes": modes}, None, began))
    version = manifest.manifest_schema_version if manifest is not None else "1"
    # By policy v1 a manifest fails the folder, its layout only warns.
    verdict = "fail" if problems else "warn" if issues else "pass"
    return report | {
        "report_schema_version": version,
        "signature": FILE,
        "manifest": msgspec.to_builtins(manifest),
        "policy_version": "v1",
        "lane": "local",
        "levels_run": [1],
        "results": results,
        "verdict": verdict,
    }


def _result(
    id: str, status: str, problems: list[str], measured: dict[str, Any], fix: str | None, began: float
) -> dict[str, Any]:
    return {
        "check_id": id,
        "status": status if problems else "pass",
        "measured": measured,
        "evidence": problems or ["nothing is wrong"],
        "remediation": fix,
        "duration_s": time.monotonic() - began,
    }


def source_digest(folder: Path) -> str:
    """Return OpenEnv's SHA-256 of a folder: each file's path and bytes, with a zero byte after both."""
    digest = hashlib.sha256()
    files = []
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if not _NOT_SOURCE.isdisjoint(inside.parts):
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise OSError(f"{inside} is neither a file nor a folder, or a link to one")
        if path.is_file():
            files.append((inside.as_posix(), path))
    for name, path in sorted(files):
        digest.update(name.encode() + b"\0")
        with path.open("rb") as stream:
            while chunk := stream.read(_MOST_BYTES):
                digest.update(chunk)
        digest.update(b"\0")
    return digest.hexdigest()


_NOT_SOURCE = {".git", "__pycache__", ".venv", ".worktrees", "outputs"}


def _manifest(declared: Any) -> Any:
    block = declared.get("validation") if isinstance(declared, dict) else None
    if not isinstance(block, dict):
        raise ValueError(f"{FILE} has no `validation:` block")
    parts = {name: block[name] for name, *_ in _SECTIONS if block.get(name) is not None}
    named = {name: declared[name] for name in ("name", "version") if declared.get(name) is not None}
    version = "2" if "execution" in parts else "1"
    manifest = msgspec.convert({"manifest_schema_version": version, "signature": FILE, **named, **parts}, _MANIFEST)
    if broken := [words for words, holds in _RULES.items() if not holds(manifest)]:
        raise ValueError(*broken)
    return manifest


_BOUNDS = {
    "max_oracle_tolerance": 0.1,
    "min_floor_margin": 0.1,
    "max_variance_tolerance": 0.2,
    "max_episode_timeout_s": 3600.0,
}


def _beyond_bounds(manifest: Any) -> tuple[list[str], dict[str, Any]]:
    """Find bounds of policy v1 that it exceeds. Returns them, and the values."""
    reward, names = manifest.reward, ("oracle_tolerance", "floor_margin", "variance_tolerance")
    values = {name: getattr(reward, name) for name in names}
    values["episode_timeout_s"] = manifest.resources.episode_timeout_s
    problems = []
    for bound, limit in _BOUNDS.items():
        side, _, name = bound.partition("_")
        value = values[name]
        if value is not None and (value > limit if side == "max" else value < limit):
            problems.append(f"{name} is {value}; {'at most' if side == 'max' else 'at least'} {limit} is allowed")
    return problems, {**values, "bounds": _BOUNDS}


def _layout(folder: Path, app: object) -> tuple[list[str], dict[str, bool]]:
    """Find what a folder lacks to be started in each of OpenEnv's ways. Its issues have OpenEnv's texts."""
    issues = list(_project_issues(folder))
    server = folder / "server" / "app.py"
    if not server.is_file():
        issues.append("Missing server/app.py")
    else:
        issues += _main_issues(_read(server))
    ready = not issues
    named = re.fullmatch(r"(\w+(?:\.\w+)*):\w+", str(app))
    file = folder.joinpath(*named[1].split(".")).with_suffix(".py") if named else None
    if file is None or not file.is_file() or not _calls(_read(file), set(CALLS)):
        issues.append(f"app: {app}: it names no module of the folder that calls create_app")
    docker = any((folder / place).is_file() for place in ("server/Dockerfile", "Dockerfile"))
    if not docker:
        issues.append("Missing server/Dockerfile")
    return issues, {"docker": docker, **dict.fromkeys(("openenv_serve", "uv_run", "python_module"), ready)}


_OPENENV = re.compile(r"openenv(?:-core)?\s*(?:$|[\[<>=!~@;])", re.IGNORECASE)


def _project_issues(folder: Path) -> Iterator[str]:
    if not (folder / "pyproject.toml").is_file():
        yield "Missing pyproject.toml"
        return
    if not (folder / "uv.lock").is_file():
        yield "Missing uv.lock - run 'uv lock' to generate it"
    try:
        project = tomllib.loads(_read(folder / "pyproject.toml")).get("project", {})
        entry = project.get("scripts", {}).get("server", "")
        needs = [str(one) for one in project.get("dependencies", [])]
    except (ValueError, AttributeError, TypeError) as error:
        yield f"Failed to parse pyproject.toml: {error_message(error)}"
        return
    if not entry:
        yield "Missing [project.scripts] server entry point"
    elif ":main" not in entry:
        yield f"Server entry point should reference main function, got: {entry}"
    if not any(map(_OPENENV.match, needs)):
        yield "Missing required dependency: openenv>=0.2.0"


def _main_issues(text: str) -> Iterator[str]:
    if "def main(" not in text:
        yield "server/app.py missing main() function"
    guards = re.search(r"^if __name__ == ['\"]__main__['\"]:", text, re.MULTILINE)
    if guards is None or "main" not in _calls(text, {"main"}):
        yield "server/app.py main() function not callable (missing if __name__ == '__main__')"


def _calls(text: str, names: set[str]) -> set[str]:
    """Return which of these functions a module calls, by its syntax alone."""
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    called = (node.func for node in nodes if isinstance(node, ast.Call))
    return names & {getattr(function, "attr", getattr(function, "id", "")) for function in called}


# ── What `validation:` may declare, as OpenEnv's reports show it: name, type, default ──

_Zero = Annotated[float, Meta(ge=0)]
_Above = Annotated[float, Meta(gt=0)]
_Count = Annotated[int, Meta(gt=0)]
_Path = Annotated[str, Meta(pattern=r"^(?!/)(?!(.*/)?\.\.(/|$))[^\\:\0]+$")]  # relative, and stays in the folder


def _table(name: str, *fields: tuple[str, Any] | tuple[str, Any, Any]) -> Any:
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True)


_REWARD = _table(
    "reward",
    ("range", tuple[float, float], (0.0, 1.0)),
    ("oracle_tolerance", _Zero, 0.0),
    ("floor_margin", _Zero),
    ("variance_tolerance", _Zero | None, None),
)
_JUDGE = _table("judge", ("model", str), ("version", str), ("params", dict[str, Any], {}))
_RESOURCES = _table(
    "resources",
    ("cpu", _Above),
    ("memory_mb", _Count),
    ("disk_mb", _Count),
    ("episode_timeout_s", _Above),
    ("gpus", Annotated[int, Meta(ge=0)], 0),
    ("gpu_types", list[str], []),
)
_TASK_DISTRIBUTION = _table(
    "task_distribution",
    ("generator_seed", int | None, None),
    ("dataset_version", str | None, None),
    ("generator_model", str | None, None),
)
_NETWORK = _table(
    "network", ("mode", Literal["public", "no-network", "allowlist"], "public"), ("allowed_hosts", list[str], [])
)
_ORACLE = _table("oracle", ("form", Literal["injected_state", "script"]), ("location", str))
_VERIFIER = _table("verifier", ("kind", Literal["reward_channel", "script"]), ("entry", str | None, None))
_CAPABILITIES = _table(
    "capabilities",
    ("oracle", _ORACLE | None, None),
    ("verifier", _VERIFIER),
    *((name, bool, False) for name in ("set_state", "llm_judged", "rubric_tree", "task_api")),
    ("canaries", str | None, None),
    ("declared_tools", list[str], []),
    ("declared_task_count", dict[str, int], {}),
)
_EXECUTION = _table(
    "execution",
    ("kind", Literal["openenv_ws"], "openenv_ws"),
    ("probe_path", _Path, "validation/runtime.json"),
    ("dockerfile", _Path, "Dockerfile"),
    ("context", _Path, "."),
    ("agent_boundary", Literal["api"], "api"),
    ("requires_credentials", bool, False),
)
_SECTIONS: tuple[tuple[Any, ...], ...] = (
    ("reward", _REWARD),
    ("judge", _JUDGE | None, None),
    ("resources", _RESOURCES),
    ("task_distribution", _TASK_DISTRIBUTION | None, None),
    ("network", _NETWORK, msgspec.field(default_factory=_NETWORK)),
    ("capabilities", _CAPABILITIES),
    ("types", _table("types", ("tags", Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)]))),
    ("execution", _EXECUTION | UnsetType, UNSET),
)
_MANIFEST = _table(
    "manifest",
    ("manifest_schema_version", str),
    ("name", str),
    ("version", str | None, None),
    ("signature", str),
    *_SECTIONS,
)
_RULES: dict[str, Callable[[Any], bool]] = {
    "reward.range must rise from its first number to its second": lambda m: m.reward.range[0] < m.reward.range[1],
    "resources.gpu_types are declared, and gpus is 0": lambda m: m.resources.gpus > 0 or not m.resources.gpu_types,
    "network.allowed_hosts belong to the mode allowlist, which needs one": lambda m: (
        (m.network.mode == "allowlist") == bool(m.network.allowed_hosts)
    ),
    "capabilities.verifier.entry belongs to the kind script, which needs it": lambda m: (
        (m.capabilities.verifier.kind == "script") == (m.capabilities.verifier.entry is not None)
    ),
    "capabilities.oracle of the form injected_state needs set_state: true": lambda m: (
        m.capabilities.set_state or getattr(m.capabilities.oracle, "form", "") != "injected_state"
    ),
    "judge belongs to capabilities.llm_judged, which needs it": lambda m: (
        m.capabilities.llm_judged == (m.judge is not None)
    ),
    "capabilities.llm_judged needs reward.variance_tolerance": lambda m: (
        not m.capabilities.llm_judged or m.reward.variance_tolerance is not None
    ),
}


ACTIONS: dict[str, tuple[Any, str]] = {
    "init": (_init, "write a new environment in OpenEnv's form"),
    "validate": (_validate, "check an environment's folder, or a running server"),
    "build": (_build, "build an environment's image with docker or podman"),
    "serve": (_serve, "serve an environment's folder, behind the wall"),
}
