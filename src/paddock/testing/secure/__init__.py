"""Rules for environments that others are to trust: seen in the source without importing it, and in a run."""

from paddock.testing.secure.rules import SECURE_RULES
from paddock.testing.secure.run_time import find_at_run_time
from paddock.testing.secure.static import find_in_folder, find_in_module

__all__ = ["SECURE_RULES", "find_at_run_time", "find_in_folder", "find_in_module"]
