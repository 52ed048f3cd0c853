"""Workers that break the rules, forked, with what they print kept as a sandbox's launcher keeps it."""

import multiprocessing
import os
import socket
import struct
import time

from paddock.hosting.codec import PREFIX, decode_frame, encode
from paddock.hosting.host import Host
from paddock.hosting.launch import Child
from paddock.hosting.messages import Done
from paddock.hosting.worker import serve

KEPT_BYTES = 65_536
_FORK = multiprocessing.get_context("fork")


class Printing(Child):
    """A forked process whose output lies in a pipe."""

    def __init__(self, process, lifeline, output_fd):
        super().__init__(process, lifeline)
        self.output_fd, self._kept, self.drains = output_fd, b"", 0
        os.set_blocking(output_fd, False)

    def drain(self):
        self.drains += 1
        if self.output_fd is not None:
            try:
                piece = os.read(self.output_fd, 65_536)
            except BlockingIOError:
                return
            self._kept = (self._kept + piece)[-KEPT_BYTES:]
            if not piece:
                os.close(self.output_fd)
                self.output_fd = None

    @property
    def output(self):
        return self._kept.decode(errors="replace")

    def kill(self):
        super().kill()
        self.drain()
        if self.output_fd is not None:
            os.close(self.output_fd)
            self.output_fd = None


def start(behaviour):
    """A worker that does ``behaviour(far)``: its near socket, and the child."""
    near, far = socket.socketpair()
    lifeline, watched = socket.socketpair()
    reading, writing = os.pipe()

    def run():
        os.setsid()
        near.close()
        lifeline.close()
        os.close(reading)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.close(writing)
        behaviour(far)
        os._exit(0)

    process = _FORK.Process(target=run, daemon=True)
    process.start()
    for end in (far, watched):
        end.close()
    os.close(writing)
    return near, Printing(process, lifeline, reading)


def receive(far):
    """The next request and its number."""
    far.setblocking(True)
    prefix = _exactly(far, 20)
    _, head, _, body = PREFIX.unpack(prefix)
    return decode_frame(prefix + _exactly(far, head + body))


def _exactly(far, count):
    data = b""
    while len(data) < count:
        piece = far.recv(count - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def reply(value, number, message=None):
    """The bytes of a reply."""
    return b"".join(encode(message or Done(value), number))


def answering(*values):
    """Answers one request after the other with these values, or with what a function says to its number."""

    def behaviour(far):
        for value in values:
            number, _ = receive(far)
            far.sendall(value(number) if callable(value) else reply(value, number))
        receive(far)

    return behaviour


def hosting(build):
    """A Host of environments that ``build`` makes of plain data."""
    return lambda far: serve(far, Host(build, alone=True))


def forever():
    while True:
        time.sleep(3600)


def slow_drip(far):
    """Half of a frame, a byte at a time, and never the rest."""
    number, _ = receive(far)
    data = reply(list(range(1000)), number)
    for byte in data[: len(data) // 2]:
        far.sendall(bytes([byte]))
        time.sleep(0.005)
    forever()


def half_a_frame(far):
    number, _ = receive(far)
    far.sendall(reply("x" * 5000, number)[:2000])
    forever()


def half_a_frame_and_exit(far):
    number, _ = receive(far)
    far.sendall(reply("x" * 5000, number)[:2000])
    os._exit(7)


def huge_frame(far):
    number, _ = receive(far)
    far.sendall(struct.pack("<4sIIQ", b"PDK1", 100, number, 1 << 40))
    forever()


def wrong_number(far):
    number, _ = receive(far)
    far.sendall(reply(None, number + 1))
    forever()


def garbage(far):
    receive(far)
    far.sendall(b"garbage " * 100)
    forever()


def a_request(far):
    number, request = receive(far)
    far.sendall(b"".join(encode(request, number)))
    forever()


def silent(far):
    os.write(1, b"the last thing\x1b[2J that it said\n")
    forever()


def never_reads(far):
    forever()


def flood(far):
    """Prints far more than a pipe holds before it answers."""
    number, _ = receive(far)
    for _ in range(40):
        os.write(1, b"y" * 65_536)
    os.write(1, b"the end\n")
    far.sendall(reply("done", number))
    receive(far)


def endless_flood(far):
    receive(far)
    while True:
        os.write(2, b"y" * 4096)


def closes_its_output(far):
    number, _ = receive(far)
    os.close(1)
    os.close(2)
    far.sendall(reply("done", number))
    forever()


def leaves_a_child_with_the_socket(far):
    receive(far)
    if os.fork() == 0:
        forever()
    os._exit(3)


def killed(far):
    receive(far)
    os.kill(os.getpid(), 9)


def closes_its_socket(far):
    receive(far)
    far.close()
    forever()
