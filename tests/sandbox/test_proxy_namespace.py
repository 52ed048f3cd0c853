"""A process in a network namespace of its own reaches what the policy names, by the listener that it sent out, only."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading

import pytest

from paddock.errors import SandboxUnavailable
from paddock.sandbox.plan import proxy_variables
from paddock.sandbox.proxy import LISTENER_MARK, Proxy, receive_listener
from tests.sandbox.web import PATIENCE_S, web

PORT = 3128

# Bring loopback up, make the listener, send it, and only then try what an environment would.
INSIDE = r"""
import fcntl, json, socket, struct, sys, urllib.error, urllib.request
control = socket.socket(fileno=int(sys.argv[1]))
allowed, refused, port = sys.argv[2], sys.argv[3], int(sys.argv[4])
with socket.socket() as any_socket:
    flags = struct.unpack("16sh", fcntl.ioctl(any_socket, 0x8913, struct.pack("16sh", b"lo", 0)))[1]
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", flags | 1))
with socket.create_server(("127.0.0.1", port)) as listener:
    socket.send_fds(control, [b"L"], [listener.fileno()])
control.recv(1)
def direct(address):
    host, _, number = address.rpartition(":")
    try:
        socket.create_connection((host, int(number)), timeout=5).close()
        return "connected"
    except OSError:
        return "failed"
def through(address):
    try:
        with urllib.request.urlopen(f"http://{address}/", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
print(json.dumps({"direct": direct(allowed), "allowed": through(allowed), "refused": through(refused)}))
"""


def in_a_network_of_its_own(argv, **options):
    if shutil.which("unshare") is None:
        pytest.skip("NOT TESTED: the proxy across network namespaces, for want of the program `unshare`")
    as_user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *as_user, "--net"]
    probe = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"NOT TESTED: the proxy across network namespaces: {probe.stderr.strip()}")
    return subprocess.Popen([*command, *argv], **options)


@pytest.mark.process
def test_a_namespace_of_its_own_reaches_only_what_the_policy_names():
    near, far = socket.socketpair()
    with near, far, web() as server, web() as other:
        allowed, refused = f"127.0.0.1:{server.port}", f"127.0.0.1:{other.port}"
        argv = [sys.executable, "-I", "-c", INSIDE, str(far.fileno()), allowed, refused, str(PORT)]
        inside = in_a_network_of_its_own(
            argv,
            pass_fds=[far.fileno()],
            env=proxy_variables(PORT),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        far.close()
        with inside, Proxy(receive_listener(near, PATIENCE_S), [allowed], timeout_s=PATIENCE_S) as proxy:
            near.sendall(b"g")
            out, err = inside.communicate(timeout=PATIENCE_S)
        assert inside.returncode == 0, err
        found = json.loads(out)
        assert found["direct"] == "failed"
        assert found["allowed"] == [200, "hello"]
        assert found["refused"] == [403, f"paddock: the permission hosts does not name {refused}.\n"]
        assert (proxy.served, proxy.refused, len(server.seen), len(other.seen)) == (1, 1, 1, 0)


def test_the_listener_comes_with_one_byte_and_what_follows_stays():
    near, far = socket.socketpair()
    with near, far, socket.create_server(("127.0.0.1", 0)) as listener:
        socket.send_fds(far, [LISTENER_MARK], [listener.fileno()])
        far.sendall(b"next")
        with receive_listener(near, PATIENCE_S) as received:
            assert received.getsockname() == listener.getsockname()
            assert not os.get_inheritable(received.fileno())
        assert near.recv(10) == b"next"


@pytest.mark.parametrize("sent", ["nothing", "end", "no descriptor", "no listener", "a file", "another mark"])
def test_anything_else_is_no_listener_and_leaves_no_descriptor(sent):
    near, far = socket.socketpair()
    with near, far, socket.socket() as plain, open(os.devnull) as file, socket.create_server(("127.0.0.1", 0)) as good:
        before = len(os.listdir("/proc/self/fd"))
        if sent == "end":
            far.shutdown(socket.SHUT_WR)
        elif sent == "no descriptor":
            far.sendall(LISTENER_MARK)
        elif sent != "nothing":
            fd = {"no listener": plain, "a file": file, "another mark": good}[sent].fileno()
            socket.send_fds(far, [b"X" if sent == "another mark" else LISTENER_MARK], [fd])
        with pytest.raises(SandboxUnavailable, match="listener of the sandbox.s proxy"):
            receive_listener(near, 0.01 if sent == "nothing" else PATIENCE_S)
        assert len(os.listdir("/proc/self/fd")) == before


def test_nothing_of_the_proxy_is_left():
    assert [one.name for one in threading.enumerate() if one.name.startswith("paddock-proxy")] == []
