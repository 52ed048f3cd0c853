"""A logic that somebody wrote for one lane."""

from dataclasses import dataclass

from paddock.wrappers.logic import Logic, Memory


@dataclass(frozen=True)
class Growth(Logic):
    """The reward is what the observation's last element has grown by; told as well. For one lane only."""

    scale: float = 1.0

    def batched(self, wrapped):
        return False

    def memory(self, wrapped):
        return Memory(before=0.0)

    def begin(self, memory, lanes, first):
        memory.before = float(first[0][-1])
        first[1]["start"] = memory.before
        return first

    def advance(self, memory, lanes, step):
        observation, _, terminated, truncated, info = step
        grown, memory.before = float(observation[-1]) - memory.before, float(observation[-1])
        info["grown"] = grown
        return observation, self.scale * grown, terminated, truncated, info
