"""Names of a test's cases that are the same in every run."""

import re


def case_name(value):
    """``value`` as text without the addresses of objects, 60 characters of it."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))[:60]
