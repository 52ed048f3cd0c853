"""The security rules that read source code: what it uses, and what of that is not declared.

A rule yields a Breach for each place. Places of the same kind in a file become one finding, with their lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from paddock.package import Manifest
from paddock.sandbox.policy import DEFAULT, Policy, covers
from paddock.testing.rules import RULE, Finding, finding
from paddock.testing.secure.source import Names, Use, module_named_in

_MAX_LINES = 5


@dataclass(frozen=True)
class Breach:
    """``what`` completes the sentence that begins with the place: ``maze.py:3: uses os.system``."""

    rule: str
    what: str
    line: int | None = None


def findings_in(file: str, breaches: Iterable[Breach], lines: Mapping[int, str]) -> list[Finding]:
    """Turn the breaches in one file into findings. If the author allows one with ``# paddock: allow SEC007`` on its
    line, the finding is a note.
    """
    places: dict[tuple[str, str, bool], set[int]] = {}
    for one in breaches:
        allowed = one.line is not None and f"paddock: allow {RULE[one.rule].code}" in lines.get(one.line, "")
        places.setdefault((one.rule, one.what, allowed), set()).update(() if one.line is None else (one.line,))
    findings = []
    for (rule, what, allowed), at in places.items():
        first, *others = [str(line) for line in sorted(at)] or [""]
        more = f" (also line {', '.join(others[:_MAX_LINES])}{', …' * (len(others) > _MAX_LINES)})" if others else ""
        place = f"{file}:{first}" if first else file
        message = f"{place}: {what}{', which the author allows there' if allowed else ''}.{more}"
        found = finding(rule, message, file=file, line=min(at, default=None))
        findings.append(replace(found, level="note") if allowed else found)
    return findings


# Available behind every wall: the scratch folder and harmless devices; for reading also the folders of Python itself.
_WRITABLE = ("/tmp", "/dev/null", "/dev/stdout", "/dev/stderr")  # noqa: S108 - the scratch folder inside
_READABLE = (*_WRITABLE, "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/usr/lib", "/usr/share/zoneinfo")


@dataclass(frozen=True)
class Declared:
    """What a target has declared; without a manifest, the default.

    ``folder`` is where relative paths of a package begin; None for a module that is not a package.
    """

    policy: Policy = DEFAULT
    deterministic: bool = True
    folder: Path | None = None

    @classmethod
    def by(cls, manifest: Manifest) -> Declared:
        """Read what the manifest declares for all of its environments."""
        return cls(manifest.permissions, all(env.deterministic for env in manifest.envs), manifest.folder)

    def may_write(self, path: str) -> bool:
        """Whether this path, as the source has it, may be written."""
        return self._allows(path, self.policy.write, _WRITABLE)

    def may_read(self, path: str) -> bool:
        """Whether this path, as the source has it, may be read."""
        named = (*self.policy.read, *self.policy.write, *self.policy.programs)
        return self._allows(path, named, _READABLE)

    def may_reach(self, host: str, port: int) -> bool:
        """Whether this host may be reached."""
        return f"{host}:{port}".lower() in self.policy.hosts or f"*:{port}" in self.policy.hosts

    def _allows(self, path: str, named: tuple[str, ...], always: tuple[str, ...]) -> bool:
        if not path.startswith("/"):
            if self.folder is None or path.startswith("~"):
                return False
            path, always = str(self.folder / path), ()  # wherever the package is now
        return any(covers(one, path.rstrip("/") or "/") for one in (*named, *always))


# ── Tables: names of functions and modules by what they do. One that ends in a dot means its members, not itself. ──

Table: TypeAlias = dict[str, tuple[str, ...]]  # entries by the part before their first dot


def _table(text: str, *more: str) -> Table:
    entries = [*text.split(), *more]
    firsts = dict.fromkeys(entry.partition(".")[0] for entry in entries)
    return {first: tuple(entry for entry in entries if entry.partition(".")[0] == first) for first in firsts}


PROCESSES = _table(
    "subprocess multiprocessing pty asyncio.create_subprocess_exec asyncio.create_subprocess_shell os.system os.popen "
    "os.fork os.forkpty os.posix_spawn os.posix_spawnp os.startfile concurrent.futures.ProcessPoolExecutor pexpect "
    "docker sh",
    *(f"os.{kind}{how}" for kind in ("exec", "spawn") for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
)
RUN_DATA = _table("""
    builtins.eval builtins.exec code.InteractiveInterpreter runpy pickle _pickle cloudpickle dill joblib marshal
    shelve jsonpickle torch.load pandas.read_pickle yaml.load yaml.unsafe_load yaml.full_load
""")
NATIVE = _table("ctypes cffi _ctypes numpy.ctypeslib")
NETWORK = _table("""
    socket ssl socketserver http.client http.server urllib.request urllib3 ftplib smtplib poplib imaplib telnetlib
    xmlrpc requests httpx aiohttp websockets websocket paramiko grpc zmq redis psycopg psycopg2 pymongo boto3
    huggingface_hub datasets openai anthropic asyncio.open_connection asyncio.start_server
""")
CLOCK = _table(
    "time.localtime time.gmtime datetime.date.today datetime.datetime.now datetime.datetime.utcnow "
    "datetime.datetime.today",
    *(f"time.{name}{ns}" for name in ("time", "monotonic", "perf_counter", "process_time") for ns in ("", "_ns")),
)
RANDOM = _table("random. numpy.random. secrets. uuid.uuid1 uuid.uuid4 os.urandom os.getrandom")
# Members of those that make a stream of their own, which can be seeded.
OWN_STREAMS = _table("""
    random.Random numpy.random.Generator numpy.random.BitGenerator numpy.random.SeedSequence numpy.random.PCG64
    numpy.random.PCG64DXSM numpy.random.Philox numpy.random.SFC64 numpy.random.MT19937 numpy.random.RandomState
    numpy.random.default_rng numpy.random.bit_generator
""")
VARIABLES = _table("os.environ os.environb os.getenv os.putenv os.unsetenv")
_READ_VARIABLE = ("os.getenv", "os.environ.get")
AROUND = _table("""
    sys._getframe sys._current_frames sys.settrace sys.setprofile sys.addaudithook inspect.stack
    inspect.currentframe inspect.getouterframes gc.get_objects gc.get_referrers gc.get_referents
""")
OTHERS = _table("sys.path. sys.meta_path. sys.path_hooks. site.addsitedir sys.modules. builtins.__import__.")
WAITS = _table("builtins.input time.sleep sys.stdin getpass.getpass signal.pause")
ENDS = _table("""
    os._exit os.abort os.kill os.killpg sys.exit builtins.exit builtins.quit signal.signal signal.alarm
    signal.setitimer signal.raise_signal signal.pthread_kill faulthandler. resource.setrlimit
""")
# Calls that do not belong in an import, besides PROCESSES and NETWORK.
EFFECTS = _table("""
    builtins.open io.open os.open os.mkdir os.makedirs os.remove os.unlink os.rename os.replace os.rmdir os.chdir
    shutil. tempfile. sqlite3.connect threading.Thread threading.Timer concurrent.futures.ThreadPoolExecutor
    numpy.load numpy.save numpy.loadtxt numpy.savetxt atexit.register signal.signal os.kill os._exit
""")
# Methods that open files, whatever the object is.
FILE_METHODS = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})

# The position of the timeout argument; None if it must be passed by name.
TIMEOUTS: dict[str, int | None] = {
    **{f"requests.{verb}": None for verb in ("get", "post", "put", "patch", "delete", "head", "options", "request")},
    "urllib.request.urlopen": 2,
    "socket.create_connection": 1,
    "http.client.HTTPConnection": 2,
    "http.client.HTTPSConnection": 2,
    "ftplib.FTP": 4,
    "smtplib.SMTP": 3,
}
# These have a default timeout; only `timeout=None` removes it.
TIMED = _table("httpx.")


def entry_for(name: str, table: Table) -> str | None:
    """Return the table's entry that covers the name."""
    for entry in table.get(name.partition(".")[0], ()):
        if name == entry or name.startswith(f"{entry.rstrip('.')}."):
            return entry
    return None


# ── Names: processes, data as code, clocks, variables and the like ──

_TABLES = {
    "starts-processes": PROCESSES,
    "runs-data": RUN_DATA,
    "native-code": NATIVE,
    "looks-around": AROUND,
    "changes-others": OTHERS,
    "waits": WAITS,
    "ends-process": ENDS,
}
# Rendering and closing are not part of the dynamics: a clock there changes no result.
_NOT_DYNAMICS = ("render", "_render", "close", "__del__")


def used_names(uses: Iterable[Use]) -> Iterator[Breach]:
    """Find names that a table lists, whatever is declared."""
    for use in uses:
        for rule, table in _TABLES.items():
            if (entry := entry_for(use.name, table)) is not None:
                yield Breach(rule, f"uses {entry.rstrip('.')}", use.line)
        for keyword in () if use.call is None else use.call.keywords:
            off = isinstance(keyword.value, ast.Constant) and keyword.value.value in (None, False)
            if keyword.arg == "allow_pickle" and not off:
                yield Breach("runs-data", "loads with allow_pickle", use.line)


def import_effects(uses: list[Use]) -> Iterator[Breach]:
    """Find calls with effects that run at import: at the top of the file, or in functions that are called there."""
    run = _called_at_import(uses)
    for use in uses:
        if use.call is None or not (use.functions == () or use.functions[0] in run):
            continue
        method = use.name.rpartition(".")[2]
        if method in FILE_METHODS or any(entry_for(use.name, table) for table in (EFFECTS, PROCESSES, NETWORK)):
            name = use.name.removeprefix("builtins.").removeprefix("?.")
            yield Breach("import-effects", f"calls {name} at import", use.line)


def hidden_input(uses: Iterable[Use], declared: Declared) -> Iterator[Breach]:
    """Find clocks and random streams that no seed controls."""
    if not declared.deterministic:
        return
    for use in uses:
        if any(name.rpartition(".")[2].startswith(_NOT_DYNAMICS) for name in use.functions) or _is_on_result(use):
            continue
        without_arguments = use.call is not None and not (use.call.args or use.call.keywords)
        if entry_for(use.name, CLOCK):
            yield Breach("hidden-input", f"reads the clock with {use.name}", use.line)
        elif use.name == "numpy.random.default_rng" and without_arguments:
            yield Breach("hidden-input", "makes a stream without a seed", use.line)
        elif entry_for(use.name, RANDOM) and not entry_for(use.name, OWN_STREAMS):
            yield Breach("hidden-input", f"draws from {use.name}", use.line)


def _is_on_result(use: Use) -> bool:
    """Whether it is an attribute of a call's result, as in ``draw().astype``: the call is a use of its own."""
    owner = use.node.func if isinstance(use.node, ast.Call) else use.node
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Call) and module_named_in(owner) is None


def variables(nodes: Iterable[ast.AST], uses: Iterable[Use], names: Names, declared: Declared) -> Iterator[Breach]:
    """Find environment variables, except those that are declared and read by a literal name."""
    declared_lines = set()
    for node in nodes:
        match node:
            case ast.Subscript(owner, ast.Constant(name), ast.Load()) if names.full(owner) == "os.environ":
                pass
            case ast.Call(function, [ast.Constant(name), *_]) if names.full(function) in _READ_VARIABLE:
                pass
            case _:
                continue
        if name in declared.policy.variables:
            declared_lines.add(node.lineno)
    for use in uses:
        imports = isinstance(use.node, (ast.Import, ast.ImportFrom))
        if entry_for(use.name, VARIABLES) and use.line not in declared_lines and not imports:
            yield Breach("environment-variables", f"uses {use.name}", use.line)


def changed_modules(nodes: Iterable[ast.AST], names: Names, own: frozenset[str]) -> Iterator[Breach]:
    """Find assignments to attributes and items of imported modules that are not the target's own."""
    for node in nodes:
        for target in _targets(node):
            owner = target
            while isinstance(owner, (ast.Attribute, ast.Subscript)):
                owner = owner.value
            root = names.import_of(owner.id) if isinstance(owner, ast.Name) and owner is not target else None
            if root is None or root.startswith(".") or root.partition(".")[0] in own:
                continue
            if isinstance(target, ast.Subscript) and names.full(target.value) in ("os.environ", "os.environb"):
                continue  # these have a rule of their own
            yield Breach("changes-others", f"changes {_target_text(target, names)}", target.lineno)


def _targets(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign() | ast.Delete():
            return node.targets
        case ast.AugAssign() | ast.AnnAssign():
            return [node.target]
        case ast.Call(ast.Name("setattr" | "delattr"), [first, *_]) if not isinstance(first, ast.Call):
            return [ast.copy_location(ast.Attribute(first, "…", ast.Store()), node)]
    return []


def _target_text(target: ast.expr, names: Names) -> str:
    return f"{_target_text(target.value, names)}[…]" if isinstance(target, ast.Subscript) else names.full(target)


def _called_at_import(uses: list[Use]) -> set[str]:
    """Return the functions of this file that an import runs, directly or through one another."""
    calls: dict[str | None, set[str]] = {}
    for use in uses:
        if use.call is not None and use.name.startswith("?.") and use.name.count(".") == 1:
            name = use.name[2:]
            calls.setdefault(use.functions[0] if use.functions else None, set()).update((name, f"{name}.__init__"))
    run: set[str] = set()
    waiting = [*calls.get(None, ())]
    while waiting:
        name = waiting.pop()
        if name not in run:
            run.add(name)
            waiting += calls.get(name, ())
    return run


# ── The network: every host declared, every call with a timeout ──

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


def network(uses: Iterable[Use], declared: Declared) -> Iterator[Breach]:
    """Find uses of the network without any declared host, and addresses that are not declared."""
    for use in uses:
        entry = entry_for(use.name, NETWORK)
        if entry is None:
            continue
        if not declared.policy.hosts:
            yield Breach("undeclared-network", f"uses {entry} and declares no hosts", use.line)
        elif use.call is not None:
            for host, port in filter(None, map(_address, use.call.args)):
                if not declared.may_reach(host, port):
                    yield Breach("undeclared-network", f"reaches {host}:{port}, which hosts does not name", use.line)


def timeouts(uses: Iterable[Use]) -> Iterator[Breach]:
    """Find calls that may wait for ever."""
    for use in uses:
        if use.call is None:
            continue
        values = [word.value for word in use.call.keywords if word.arg == "timeout"]
        spread = any(word.arg is None for word in use.call.keywords)
        at = TIMEOUTS.get(use.name, -1)
        if not values and at is not None and 0 <= at < len(use.call.args):
            values = [use.call.args[at]]
        endless = any(isinstance(one, ast.Constant) and one.value is None for one in values)
        if endless and (use.name in TIMEOUTS or entry_for(use.name, TIMED)):
            yield Breach("no-timeout", f"calls {use.name} with timeout=None", use.line)
        elif use.name in TIMEOUTS and not values and not spread:
            yield Breach("no-timeout", f"calls {use.name} without a timeout", use.line)


def _address(node: ast.expr) -> tuple[str, int] | None:
    """Return host and port of a literal URL, or of a literal ('host', port)."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0] if isinstance(node.values[0], ast.Constant) else node
    if isinstance(node, ast.Tuple) and len(node.elts) == 2:
        host, port = (one.value if isinstance(one, ast.Constant) else None for one in node.elts)
        return (host, port) if isinstance(host, str) and isinstance(port, int) else None
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or "://" not in node.value:
        return None
    try:
        parts = urlsplit(node.value)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname and port else None


# ── Files: which paths are read and written. Only the literal beginning of a path can be judged. ──

_How = Literal["read", "write"]

BESIDE_THE_CODE = "(beside the code)"
_OPENS = ("builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "codecs.open")
# Functions that change the file named by this argument.
_WRITES = {
    **dict.fromkeys(("os.mkdir", "os.makedirs", "os.remove", "os.unlink", "os.rmdir", "os.removedirs", "os.chmod"), 0),
    **dict.fromkeys(("os.truncate", "os.mknod", "os.mkfifo", "shutil.rmtree", "sqlite3.connect"), 0),
    **dict.fromkeys(("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"), 1),
    **dict.fromkeys(("os.rename", "os.replace", "os.symlink", "os.link"), 1),
    **dict.fromkeys(("numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "torch.save"), 0),
    **dict.fromkeys(("logging.FileHandler", "logging.handlers.RotatingFileHandler"), 0),
}
# Functions that read the file named by their first argument.
_READS = ("numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "pandas.read_csv", "os.listdir", "os.scandir", "os.walk")
_METHODS: dict[str, _How] = {
    **dict.fromkeys(("write_text", "write_bytes", "touch", "mkdir", "unlink", "rmdir"), "write"),
    **dict.fromkeys(("read_text", "read_bytes", "iterdir", "glob", "rglob"), "read"),
}
_FIXED_PLACES = {"pathlib.Path.home": "~", "pathlib.Path.cwd": ".", "os.getcwd": "."}
# Functions that return a path made from their first argument.
_THROUGH = (
    *("pathlib.Path", "pathlib.PurePath", "builtins.str", "os.fspath", "os.path.join", "os.path.expanduser"),
    *("os.path.expandvars", "os.path.abspath", "os.path.realpath", "os.path.dirname", "os.path.normpath"),
)


def files(uses: Iterable[Use], names: Names, declared: Declared) -> Iterator[Breach]:
    """Find files that are written or read without being declared."""
    for use in uses:
        if use.call is None or (touched := _file_access(use.name, use.call)) is None:
            continue
        how, expression = touched
        path = _beginning(expression, names)
        if path is None:
            continue
        if how == "write" and (path == BESIDE_THE_CODE or not declared.may_write(path)):
            yield Breach("writes-elsewhere", f"writes {path!r}", use.line)
        elif how == "read" and path != BESIDE_THE_CODE and not declared.may_read(path):
            yield Breach("reads-elsewhere", f"reads {path!r}", use.line)


def _file_access(name: str, call: ast.Call) -> tuple[_How, ast.expr] | None:
    """Return how the call touches a file, and the expression for its path."""
    method = name.rpartition(".")[2]
    if name in _OPENS and call.args:
        return _mode(call, 1), call.args[0]
    if name in _WRITES and len(call.args) > _WRITES[name]:
        return "write", call.args[_WRITES[name]]
    if name in _READS and call.args:
        return "read", call.args[0]
    if not isinstance(call.func, ast.Attribute):
        return None
    if name.startswith("pathlib.Path.") and method == "open":
        return _mode(call, 0), call.func.value
    if method in _METHODS and (name.startswith("pathlib.") or method.endswith(("_text", "_bytes"))):
        return _METHODS[method], call.func.value
    return None


def _mode(call: ast.Call, at: int) -> _How:
    given = [word.value for word in call.keywords if word.arg == "mode"] + list(call.args[at : at + 1])
    mode = given[0].value if given and isinstance(given[0], ast.Constant) else "r"
    return "write" if isinstance(mode, str) and set(mode) & set("wax+") else "read"


def _beginning(node: ast.AST, names: Names) -> str | None:
    """Return the path, or its literal beginning; None if the source does not tell."""
    match node:
        case ast.Constant(str(text)):
            return text or None
        case ast.Name("__file__"):
            return BESIDE_THE_CODE
        case (
            ast.JoinedStr([first, *_])
            | ast.BinOp(first, ast.Add() | ast.Div())
            | ast.Attribute(first)  # .parent
            | ast.Subscript(first)  # .parents[1]
        ):
            return _beginning(first, names)
        case ast.Call(function, arguments):
            name = names.full(function)
            if name in _FIXED_PLACES:
                return _FIXED_PLACES[name]
            if name in _THROUGH and arguments:
                return _beginning(arguments[0], names)
            if isinstance(function, ast.Attribute) and name.startswith("pathlib.Path."):
                return _beginning(function.value, names)  # .resolve(), .joinpath(…)
    return None


# ── Secrets: texts in the forms of services' keys, and literals assigned to telling names. A finding never quotes the
# secret: reports are stored and shown. ──

_FORMS = {
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50})"),
    "an API key": re.compile(r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{20}"),
    "a Hugging Face token": re.compile(r"\bhf_[A-Za-z0-9]{30}"),
    "a Google key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a Slack token": re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10}"),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----"),
    "a password in a URL": re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@]{1,100}:[^/\s:@]{3,100}@"),
}
_TELLING = re.compile(r"(?:^|_)(?:password|passwd|secret|api_?key|access_?key|auth_?token|token|private_?key)$", re.I)
_PLACEHOLDER = re.compile(r"^$|^[<{$%]|example|your|xxx|changeme|placeholder|dummy|test|todo|none|\s", re.I)
_SHORTEST = 8


def secrets(nodes: Iterable[ast.AST]) -> Iterator[Breach]:
    """Find secrets in a file's texts."""
    for node in nodes:
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and (kind := form_of(text)) is not None:
            yield Breach("secret-in-source", f"holds {kind}", node.lineno)  # type: ignore[attr-defined]
        for name, value in _named_values(node):
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and _is_secret(name, value.value):
                yield Breach("secret-in-source", f"holds the value of {name}", value.lineno)


def secrets_among(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of variables whose values look like secrets."""
    for name, value in variables.items():
        if form_of(value) is not None or _is_secret(name, value):
            yield name


def form_of(text: str) -> str | None:
    """Return the kind of secret in the text, by its form."""
    return next((kind for kind, form in _FORMS.items() if form.search(text)), None)


def _is_secret(name: str, text: str) -> bool:
    """Whether the name tells of a secret and the text may be one, of no known form."""
    if not _TELLING.search(name) or len(text) < _SHORTEST or _PLACEHOLDER.search(text) or form_of(text) is not None:
        return False
    return len(set(text)) > 4 and any(c.isdigit() or not c.isalnum() for c in text)


def _named_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with their values, from assignments, keywords and dicts; not from defaults."""
    match node:
        case ast.Assign(targets, value):
            for target in targets:
                if isinstance(target, (ast.Name, ast.Attribute)):
                    yield (target.id if isinstance(target, ast.Name) else target.attr), value
        case ast.AnnAssign(ast.Name(name), _, ast.expr() as value) | ast.keyword(str(name), value):
            yield name, value
        case ast.Dict(keys, values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value


# ── Infos: keys that give away what the agent has to find out ──

_ANSWERS = re.compile(
    r"(?:^|_)(?:answers?|solutions?|secrets?|hidden(?:_state)?|ground_?truth|expected_(?:answer|output)|gold|flag|"
    r"correct_(?:answer|action)|optimal_action|best_action|next_state|rng_state|seed_state|labels?)(?:_|$)",
    re.IGNORECASE,
)
_DEEPEST = 8


def tells(key: object) -> bool:
    """Whether a key of an info sounds like an answer."""
    return isinstance(key, str) and len(key) <= 200 and bool(_ANSWERS.search(key))


def infos_in_source(nodes: Iterable[ast.AST]) -> Iterator[Breach]:
    """Find answers in infos that ``reset`` and ``step`` return as literals or fill as ``info[...]``."""
    for node in nodes:
        for key in _keys(node):
            if isinstance(key, ast.Constant) and tells(key.value):
                yield Breach("info-tells", f"puts {key.value!r} into an info", key.lineno)


def answers_in(info: Any, path: str = "info", depth: int = 0) -> Iterator[str]:
    """Yield the paths of keys in an info that sound like answers."""
    if isinstance(info, dict) and depth < _DEEPEST:
        for key, value in info.items():
            place = f"{path}[{str(key)[:80]!r}]"
            if tells(key):
                yield place
            else:
                yield from answers_in(value, place, depth + 1)


def _keys(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in ("reset", "step"):
        returned = (one.value for one in ast.walk(node) if isinstance(one, ast.Return))
        last = (value.elts[-1] for value in returned if isinstance(value, ast.Tuple) and value.elts)
        return [key for literal in last if isinstance(literal, ast.Dict) for key in literal.keys if key is not None]
    if isinstance(node, ast.Assign):
        return [
            *(target.slice for target in node.targets if isinstance(target, ast.Subscript) and _is_info(target.value)),
            *(node.value.keys if isinstance(node.value, ast.Dict) and any(map(_is_info, node.targets)) else ()),
        ]
    return []


def _is_info(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("info", "infos")
