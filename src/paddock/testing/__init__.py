"""What authors of environments test with: find lists what is wrong, check_env fails on it."""

from paddock.testing import report
from paddock.testing.checking import check_env
from paddock.testing.equivalence import data_equivalence
from paddock.testing.examine import find
from paddock.testing.finding import Finding
from paddock.testing.rules import RULES, Rule
from paddock.testing.wrapper_law import check_wrapper

__all__ = ["RULES", "Finding", "Rule", "check_env", "check_wrapper", "data_equivalence", "find", "report"]
