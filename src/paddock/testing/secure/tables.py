"""Names of functions and modules by what they do. One that ends in a dot stands for its members, not for itself."""

from __future__ import annotations

from typing import TypeAlias

Table: TypeAlias = dict[str, tuple[str, ...]]  # entries by the part before their first dot


def _table(*entries: str) -> Table:
    firsts = dict.fromkeys(entry.partition(".")[0] for entry in entries)
    return {first: tuple(entry for entry in entries if entry.partition(".")[0] == first) for first in firsts}


PROCESSES = _table(
    *("subprocess", "multiprocessing", "pty", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"),
    *("os.system", "os.popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.posix_spawnp", "os.startfile"),
    *(f"os.{kind}{how}" for kind in ("exec", "spawn") for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *("concurrent.futures.ProcessPoolExecutor", "pexpect", "docker", "sh"),
)
RUN_DATA = _table(
    *("builtins.eval", "builtins.exec", "code.InteractiveInterpreter", "runpy"),
    *("pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jsonpickle"),
    *("torch.load", "pandas.read_pickle", "yaml.load", "yaml.unsafe_load", "yaml.full_load"),
)
NATIVE = _table("ctypes", "cffi", "_ctypes", "numpy.ctypeslib")
NETWORK = _table(
    *("socket", "ssl", "socketserver", "http.client", "http.server", "urllib.request", "urllib3", "ftplib", "smtplib"),
    *("poplib", "imaplib", "telnetlib", "xmlrpc", "requests", "httpx", "aiohttp", "websockets", "websocket"),
    *("paramiko", "grpc", "zmq", "redis", "psycopg", "psycopg2", "pymongo", "boto3", "huggingface_hub", "datasets"),
    *("openai", "anthropic", "asyncio.open_connection", "asyncio.start_server"),
)
CLOCK = _table(
    *(f"time.{name}{ns}" for name in ("time", "monotonic", "perf_counter", "process_time") for ns in ("", "_ns")),
    *("time.localtime", "time.gmtime", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"),
    "datetime.date.today",
)
RANDOM = _table("random.", "numpy.random.", "secrets.", "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getrandom")
# Members of those that are streams of one's own, to be seeded.
OWN_STREAMS = frozenset(
    {
        *("random.Random", "numpy.random.Generator", "numpy.random.BitGenerator", "numpy.random.SeedSequence"),
        *("numpy.random.PCG64", "numpy.random.PCG64DXSM", "numpy.random.Philox", "numpy.random.SFC64"),
        *("numpy.random.MT19937", "numpy.random.RandomState", "numpy.random.default_rng", "numpy.random.bit_generator"),
    }
)
VARIABLES = _table("os.environ", "os.environb", "os.getenv", "os.putenv", "os.unsetenv")
AROUND = _table(
    *("sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile", "sys.addaudithook"),
    *("inspect.stack", "inspect.currentframe", "inspect.getouterframes"),
    *("gc.get_objects", "gc.get_referrers", "gc.get_referents"),
)
OTHERS = _table(
    "sys.path.", "sys.meta_path.", "sys.path_hooks.", "site.addsitedir", "sys.modules.", "builtins.__import__."
)
WAITS = _table("builtins.input", "time.sleep", "sys.stdin", "getpass.getpass", "signal.pause")
ENDS = _table(
    *("os._exit", "os.abort", "os.kill", "os.killpg", "sys.exit", "builtins.exit", "builtins.quit"),
    *("signal.signal", "signal.alarm", "signal.setitimer", "signal.raise_signal", "signal.pthread_kill"),
    *("faulthandler.", "resource.setrlimit"),
)
# Calls that are no business of an import, besides PROCESSES and NETWORK.
EFFECTS = _table(
    *("builtins.open", "io.open", "os.open", "os.mkdir", "os.makedirs", "os.remove", "os.unlink", "os.rename"),
    *("os.replace", "os.rmdir", "os.chdir", "shutil.", "tempfile.", "sqlite3.connect"),
    *("threading.Thread", "threading.Timer"),
    *("concurrent.futures.ThreadPoolExecutor", "numpy.load", "numpy.save", "numpy.loadtxt", "numpy.savetxt"),
    *("atexit.register", "signal.signal", "os.kill", "os._exit"),
)
# Methods whose name tells, whatever the object is.
FILE_METHODS = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})

# Where the timeout is if not named: the number of the argument; None where it must be named.
TIMEOUTS: dict[str, int | None] = {
    **{f"requests.{verb}": None for verb in ("get", "post", "put", "patch", "delete", "head", "options", "request")},
    "urllib.request.urlopen": 2,
    "socket.create_connection": 1,
    "http.client.HTTPConnection": 2,
    "http.client.HTTPSConnection": 2,
    "ftplib.FTP": 4,
    "smtplib.SMTP": 3,
}
# The default is a timeout; only `timeout=None` is none.
TIMED = _table("httpx.")


def entry_for(name: str, table: Table) -> str | None:
    """The table's entry that the name falls under."""
    for entry in table.get(name.partition(".")[0], ()):
        if (name.startswith(entry) and name != entry) if entry.endswith(".") else within(name, entry):
            return entry
    return None


def within(name: str, entry: str) -> bool:
    """Whether it is this name or a member of it."""
    return name == entry or name.startswith(entry + ".")
