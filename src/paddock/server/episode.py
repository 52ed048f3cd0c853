"""Episode: what is known of a session's episode from what was asked and answered. Hot: once a step."""

from __future__ import annotations

from typing import Any

from paddock.hosting import messages as m


class Episode:
    """``first`` is the observation that it began with; an episode that ended is still the one that began."""

    __slots__ = ("begun", "first", "steps", "terminated", "total", "truncated")

    terminated: bool
    truncated: bool

    def __init__(self) -> None:
        self.begun = False
        self._fresh(None)

    def _fresh(self, first: Any) -> None:
        self.first, self.steps, self.total = first, 0, 0.0
        self.terminated = self.truncated = False

    def note(self, request: m.Request, reply: m.Reply) -> None:
        """A reply came, checked already."""
        if not isinstance(reply, m.Done):
            return
        if type(request) is m.Step:
            value = reply.value[0]
            if type(value) is list:
                _, reward, self.terminated, self.truncated, _ = value
                self.steps += 1
                self.total += float(reward)
        elif type(request) is m.Reset:
            self.begun = True
            self._fresh(reply.value[0])

    def told(self) -> dict[str, Any]:
        """For who runs it."""
        return {
            "begun": self.begun,
            "steps": self.steps,
            "return": self.total,
            "terminated": bool(self.terminated),
            "truncated": bool(self.truncated),
        }
