"""A proxy that cuts connections after so many bytes, in the middle of whatever is on its way, with a reset."""

import contextlib
import socket
import struct
import threading

import numpy as np

_RESET = struct.pack("ii", 1, 0)


class CuttingProxy:
    """Passes connections on to ``port``. ``cuts``: for each connection bytes (up, down) after which it is cut, or None.

    After the last of them nothing is cut any more.
    """

    def __init__(self, port, cuts):
        self._port, self._cuts = port, iter(cuts)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.made = self.cut = 0
        self._pairs, self._threads = [], []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        self.drop_all()
        for thread in self._threads:
            thread.join()

    def drop_all(self):
        for pair in self._pairs:
            _reset(*pair)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._port))
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pairs.append((near, far))
                self.made += 1
                up, down = next(self._cuts, (None, None))
                for source, sink, budget in ((near, far, up), (far, near, down)):
                    thread = threading.Thread(target=self._pass_on, args=(source, sink, budget))
                    self._threads.append(thread)
                    thread.start()

    def _pass_on(self, source, sink, budget):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if budget is not None and len(data) >= budget:
                    sink.sendall(data[:budget])
                    self.cut += 1
                    break
                budget = None if budget is None else budget - len(data)
                sink.sendall(data)
        _reset(source, sink)


def _reset(*sockets):
    for sock in sockets:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()


def cuts(seed, count, *, largest):
    """Where connections are cut: in the handshake, in the Hello, in and between requests and replies."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield (int(rng.integers(1, 3000)), None) if rng.random() < 0.5 else (None, int(rng.integers(1, largest)))
