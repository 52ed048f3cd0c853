"""FrameCutter: whole frames out of a stream's bytes, for those who pass frames on. Only their prefix is looked at.

Where several sessions share a stream, each frame stands behind its session's number: ``lead`` bytes, which come out
with it. A reader would get wrong: a prefix that is none makes the stream ``bad``, but what came before it counts.
"""

from __future__ import annotations

from paddock.errors import BadFrame
from paddock.hosting.codec import PREFIX_BYTES, decode_prefix
from paddock.hosting.limits import Limits


class FrameCutter:
    """Of one stream. Once it is ``bad`` nothing more is to be put in."""

    def __init__(self, limits: Limits, lead: int = 0) -> None:
        self._limits, self._lead = limits, lead
        self._rest = bytearray()  # the beginning of a frame that is not all here
        self._needed = 0  # so many bytes until there can be one
        self.bad = False

    def cut(self, piece: memoryview) -> list[bytes]:
        """The frames that end in this piece, in their order; nothing of the piece itself is kept."""
        if not self._rest:
            frames, rest = self._whole(piece)
            self._rest += rest
            return frames
        self._rest += piece
        if len(self._rest) < self._needed:
            return []
        here = self._rest
        frames, rest = self._whole(memoryview(here))
        self._rest = bytearray(rest)
        return frames

    def _whole(self, piece: memoryview) -> tuple[list[bytes], memoryview]:
        """The whole frames at the beginning of these bytes, and what is left."""
        frames: list[bytes] = []
        lead, at, end = self._lead, 0, len(piece)
        while (body_at := at + lead + PREFIX_BYTES) <= end:
            try:
                _, head, body = decode_prefix(piece[at + lead : body_at], limits=self._limits)
            except BadFrame:
                self.bad = True
                break
            after = body_at + head + body
            if after > end:
                self._needed = after - at
                break
            frames.append(bytes(piece[at:after]))
            at = after
        else:
            self._needed = lead + PREFIX_BYTES
        return frames, piece[at:]
