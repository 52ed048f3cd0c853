"""What surrounds a session in the simulator, as small models: a worker, a disk that may be cut, a network link."""

from dataclasses import dataclass, field
from functools import lru_cache
from zlib import crc32

from paddock.hosting.codec import PREFIX, decode_frame
from paddock.hosting.messages import Done, Failed
from paddock.hosting.remote_session import frame_of
from paddock.server.journal import MAGIC, SYNCED_AT_ONCE, pack_entry


class Violation(AssertionError):
    """The session layer broke a promise."""


def frame(number, payload):
    """A frame as far as the session layer looks into one: a number, and bytes."""
    return PREFIX.pack(b"PDK1", len(payload), number, 0) + payload


def payload_of(data):
    return data[PREFIX.size :]


@lru_cache(maxsize=1000)
def code_of(data):
    """The code of a Failed frame, '' for a model worker's reply."""
    if payload_of(data).startswith(b"R"):
        return ""
    message = decode_frame(data)[1]
    assert isinstance(message, (Done, Failed))
    return message.code if isinstance(message, Failed) else ""


class ModelWorker:
    """Counts what it carries out. Its replies tell the whole past: another past, another reply."""

    def __init__(self, id, secret):
        self.id, self.state, self.log = id, secret, []  # log: request frame, reply frame
        self.alive, self.hangs = True, False
        self.ready_at = 0.0

    def apply(self, request):
        number = PREFIX.unpack_from(request)[2]
        if number != len(self.log) + 1:
            raise Violation(f"worker {self.id} was given request {number} after {len(self.log)}")
        self.state = crc32(request, self.state)
        reply = frame_of(Done(f"R{self.state:08x}"), number)
        self.log.append((request, reply))
        return reply


class Disk:
    """A journal's file: what was written survives the server, what was synced survives the machine."""

    def __init__(self, sync):
        self.sync, self.full = sync, False
        self.wipe()

    def wipe(self):
        self.data, self.synced, self.crc = bytearray(), 0, 0

    def append(self, entry):
        if self.full:
            return False
        if not self.data:
            self.data += MAGIC
        data, self.crc = pack_entry(entry, self.crc)
        self.data += data
        if isinstance(entry, SYNCED_AT_ONCE[self.sync]):
            self.synced = len(self.data)
        return True

    def lose_unsynced(self, rng):
        kept = rng.randint(self.synced, len(self.data))
        zeros = rng.choice((0, 0, len(self.data) - kept))
        del self.data[kept:]
        self.data += bytes(zeros)


@dataclass(eq=False, slots=True)
class Link:
    """One connection. Each end notices by itself that it is broken, sooner or later."""

    id: int
    driver: object
    attempt: int
    life: int  # of the server that it leads to
    at_client: bool = True
    at_server: bool = True
    closing: bool = False  # by the server: nothing more is sent, but what is on its way up still arrives
    greeted: bool = False
    up_at: float = 0.0
    down_at: float = 0.0
    lost_after: float | None = None  # what arrives later than this never does
    late_s: float = 0.0  # what was on its way when it broke arrives so much later


@dataclass
class History:
    """What clients saw, and which misfortunes excuse which errors."""

    excuses: set = field(default_factory=set)
    sent: dict = field(default_factory=dict)  # number to the reply that this server's life gave

    def excuse(self, *codes):
        self.excuses.update(codes)
