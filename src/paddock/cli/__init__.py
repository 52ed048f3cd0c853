"""The command line: ``main(argv) -> exit code``. Starts without NumPy: a command's module is imported when chosen."""

from paddock.cli.program import main

__all__ = ["main"]
