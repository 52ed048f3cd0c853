"""Many episodes at once, with what came of each: ``rollout`` and the Rollouts that it returns. Errors stay errors."""

from paddock.agentic.rollouts.result import Failure, Rollout, Rollouts
from paddock.agentic.rollouts.run import rollout
from paddock.agentic.rollouts.statistics import Estimate
from paddock.agentic.rollouts.turn import Turn

__all__ = ["Estimate", "Failure", "Rollout", "Rollouts", "Turn", "rollout"]
