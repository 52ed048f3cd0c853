"""The program in a workspace, ``python -I -S -u -c <this text> run|call|tools``: runs the code that its socket brings.

It shares its process with that code, so the code could forge whatever it writes. Its answers are compared, never
trusted. It imports next to nothing, because every run begins with it.
"""

import os
import sys

TYPE_CHECKING = False  # typing would have to be imported
if TYPE_CHECKING:
    from typing import Any

LINK = 3  # the socket to the environment
READY = b"R"
ANSWER, NO_ANSWER, NO_FUNCTION = b"=", b"!", b"?"  # how a line begins
FILE = "main.py"


def run() -> None:
    """Run a program; its output goes to two pipes that come over the socket, its exit code to the socket."""
    out, err = _pipes()
    code = _rest()
    _connect(out, err)
    status = _execute(code)
    os.write(LINK, b"%d" % status)
    _end(status)


def call() -> None:
    """Call the program's ``solve`` with each of the arguments that came; a line to the socket for each result."""
    code, calls = eval(_rest())  # noqa: S307 - the environment wrote it
    nowhere = os.open(os.devnull, os.O_RDWR)
    _connect(nowhere, nowhere)
    _execute(code)
    solve = getattr(sys.modules["__main__"], "solve", None)
    if not callable(solve):
        _say(NO_FUNCTION)
        os._exit(1)
    for arguments in calls:
        try:
            line = ANSWER + encoded(solve(*arguments)).encode()
        except BaseException:  # SystemExit too: the next call may go well
            line = NO_ANSWER
        _say(line)
    os._exit(0)


def tools() -> None:
    """Run a program that may call tools by name: a line to the socket for each call, and at last for its ``result``."""
    code, names = eval(_line())  # noqa: S307 - the environment wrote it
    nowhere = os.open(os.devnull, os.O_RDWR)
    _connect(nowhere, nowhere)
    sys.modules["__main__"] = module = type(sys)("__main__")
    space = module.__dict__
    space.update({name: _tool(name) for name in names})
    try:
        exec(compile(code, "<string>", "exec"), space)  # noqa: S102 - what this program is for
        line = encoded(["result", space.get("result")])
    except SyntaxError as error:
        line = encoded(["error", f"Syntax error: {error}"])
    except BaseException as error:
        line = encoded(["error", str(error) or type(error).__name__])
    _say(line.encode())
    os._exit(0)


def _tool(name: str) -> "Any":
    def call(*arguments: "Any", **named: "Any") -> "Any":
        import builtins

        _say(encoded(["call", name, arguments, named]).encode())
        failed, value = eval(_line(), {"nan": float("nan"), "inf": float("inf")})  # noqa: S307 - the environment's
        if failed:
            kind = getattr(builtins, failed, None)
            raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError)(value)
        return value

    call.__name__ = name
    return call


def _line() -> bytes:
    pieces = [b""]
    while not pieces[-1].endswith(b"\n"):
        pieces.append(os.read(LINK, 1 << 16))
        if not pieces[-1]:
            os._exit(1)
    return b"".join(pieces)


def encoded(value: "Any") -> str:
    """JSON. By hand: importing json would take longer than starting Python does. Only plain data has a form."""
    from _json import encode_basestring_ascii

    kind = type(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is int or kind is float:
        return repr(value)
    if kind is list or kind is tuple:
        return f"[{','.join(map(encoded, value))}]"
    if kind is dict and all(type(key) is str for key in value):
        return f"{{{','.join(f'{encoded(key)}:{encoded(item)}' for key, item in value.items())}}}"
    raise TypeError(f"{kind.__name__} is not plain data")


def _pipes() -> tuple[int, int]:
    import _socket

    link = _socket.socket(fileno=os.dup(LINK))
    _, sent, _, _ = link.recvmsg(1, _socket.CMSG_SPACE(8))
    link.close()
    both = sent[0][2]
    return int.from_bytes(both[:4], sys.byteorder), int.from_bytes(both[4:8], sys.byteorder)


def _rest() -> bytes:
    pieces = []
    while piece := os.read(LINK, 1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def _connect(out: int, err: int) -> None:
    """From now on these are the standard output and error, and there is no input."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, place in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(descriptor, place)
    for descriptor in {nothing, out, err}:
        os.close(descriptor)


def _execute(code: bytes) -> int:
    """Run it as the main module, and return its exit code."""
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    sys.argv[:] = [FILE]
    try:
        exec(compile(code, FILE, "exec"), module.__dict__)  # noqa: S102 - what this program is for
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__ and error.__traceback__.tb_next  # without the line above
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def _end(status: int) -> None:
    """End as Python does, but skip its teardown, which takes as long as everything else here."""
    import atexit

    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _say(line: bytes) -> None:
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(LINK, left) :]


if __name__ == "__main__":
    os.write(LINK, READY)
    {"run": run, "call": call, "tools": tools}[sys.argv[1]]()
