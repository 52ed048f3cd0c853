"""Many episodes at once: ``rollout`` and the Rollouts that it returns. A failure is never a reward of 0."""

from paddock.agentic.rollouts.episode import Turn
from paddock.agentic.rollouts.groups import Group, Sample
from paddock.agentic.rollouts.options import Budget
from paddock.agentic.rollouts.results import Estimate, Failure, Rollout, Rollouts
from paddock.agentic.rollouts.run import arollout, rollout, stream

__all__ = [
    "Budget",
    "Estimate",
    "Failure",
    "Group",
    "Rollout",
    "Rollouts",
    "Sample",
    "Turn",
    "arollout",
    "rollout",
    "stream",
]
