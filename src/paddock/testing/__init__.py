"""For authors of environments and wrappers: find lists what is wrong, check_env and check_wrapper fail on it."""

from paddock.testing import report
from paddock.testing.checker import check_env, find
from paddock.testing.rules import RULES, Finding, Rule
from paddock.testing.watched import data_equivalence
from paddock.testing.wrapper_law import check_wrapper

__all__ = ["RULES", "Finding", "Rule", "check_env", "check_wrapper", "data_equivalence", "find", "report"]
