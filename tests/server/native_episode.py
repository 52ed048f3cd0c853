"""A session of the native wire in the middle of an episode, whose steps are counted on both sides."""

import struct

from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from tests.server.fuzzing import LEAKS, LIMIT_S, LIMIT_S_PER_BYTE
from tests.server.raw_peers import BINARY

NEVER_TAKEN = ("BAD_FRAME", "OUT_OF_ORDER", "IDEMPOTENCY_CONFLICT")


class Episode:
    """A session in the middle of an episode; ``count`` is the number of the newest request that was taken."""

    def __init__(self, server, name="Vault-v0"):
        self.server, self.name, self.count = server, name, 0
        self.welcome = None
        self.connect()
        assert isinstance(self.ask(m.Make(0, {})), m.Done)
        self.steps, self.resets = 0, self.ask(m.Reset(0)).value[1].get("resets", 1)

    def connect(self):
        """Connect, and take the session up again if there is one."""
        resume = self.welcome and m.Resume(self.welcome.session, self.welcome.token, self.count)
        if resume:
            self.peer.sock.close()
        self.peer = self.server.peer(timeout=60.0)
        assert self.peer.upgrade(f"/{self.name}/ws", native=True).status == 101
        self.peer.frame(BINARY, b"".join(encode(m.Hello(resume), 0)))
        self.welcome = self.answer()
        assert isinstance(self.welcome, m.Welcome), self.welcome
        assert self.welcome.last == self.count

    def answer(self):
        opcode, payload = self.peer.message()
        assert opcode == BINARY, (opcode, payload)
        for word in LEAKS:
            assert word.encode() not in payload, payload
        return decode_frame(payload)[1]

    def ask(self, message):
        self.count += 1
        return self.send(b"".join(encode(message, self.count)))

    def send(self, payload, *, opcode=BINARY, pieces=1):
        size = max(1, -(-len(payload) // pieces))
        with self.server.busy_at_most(LIMIT_S + len(payload) * LIMIT_S_PER_BYTE, payload):
            for start in range(0, max(1, len(payload)), size):
                last = start + size >= len(payload)
                self.peer.frame(0 if start else opcode, payload[start : start + size], fin=last)
            return self.answer()

    def bad(self, payload, **how):
        """Send what may be anything; the answer. If the request was taken after all, that is counted."""
        answer = self.send(payload, **how)
        number = struct.unpack_from("<I", payload, 8)[0] if len(payload) >= 12 else 0
        taken = not isinstance(answer, m.Failed) or answer.code not in NEVER_TAKEN
        if taken and number == self.count + 1:
            self.count += 1
        return answer

    def check(self):
        """A step works, and the episode is the one it was."""
        answer = self.ask(m.Step([0], [1]))
        assert isinstance(answer, m.Done) and not isinstance(answer.value[0], m.Failed), answer
        observation, reward, _, _, info = answer.value[0]
        expected, self.steps = (self.steps + 1, {"resets": self.resets}), int(observation[0])
        self.resets = info["resets"]
        assert (self.steps, info) == expected and reward == 1.0
