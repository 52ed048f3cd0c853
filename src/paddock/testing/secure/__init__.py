"""Security rules for environments that others should be able to trust: for source, read not imported, and for a run."""

from paddock.testing.rules import SECURE_RULES
from paddock.testing.secure.findings import find_at_run_time, find_in_folder, find_in_module

__all__ = ["SECURE_RULES", "find_at_run_time", "find_in_folder", "find_in_module"]
