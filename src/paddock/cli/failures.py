"""How commands end early: with one line and an exit code. 2 is the user's mistake, 1 is a fault in what was run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paddock.cli.printing import described, message_of
from paddock.errors import DeadlineExceeded, DependencyNotInstalled, PaddockError, UnregisteredEnv

OK, FAILED, MISTAKE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


class CommandFailed(Exception):
    """The command ends here. ``code`` is what ``--json`` reports, as on the wire."""

    def __init__(self, message: str, *, exit_code: int, code: str = "ERROR") -> None:
        super().__init__(message)
        self.exit_code, self.code = exit_code, code


def mistake(message: str, code: str = "USAGE") -> CommandFailed:
    """An error that the user can correct."""
    return CommandFailed(message, exit_code=MISTAKE, code=code)


@contextmanager
def environment_code(doing: Callable[[], str]) -> Iterator[None]:
    """Around calls into an environment: whatever it raises, ``SystemExit`` too, is its failure and not ours."""
    try:
        yield
    except CommandFailed:
        raise
    except DependencyNotInstalled as error:
        raise mistake(message_of(error), error.code) from error
    except DeadlineExceeded as error:
        raise CommandFailed(f"{doing()}: {message_of(error)}", exit_code=FAILED, code=error.code) from error
    except (Exception, SystemExit) as error:
        from paddock.hosting.failure import place_of  # when something failed: `paddock list` never needs it

        code = error.code if isinstance(error, PaddockError) else "ENV_ERROR"
        place = place_of(error)
        words = f"{doing()} raised {described(error)}{'' if place is None else f' at {place}'}"
        raise CommandFailed(words, exit_code=FAILED, code=code) from error


@contextmanager
def target_code(text: str) -> Iterator[None]:
    """Around the building of a target: a module or an id that does not exist is the user's mistake."""
    with environment_code(lambda: f"making {text}"):
        try:
            yield
        except UnregisteredEnv as error:
            raise mistake(message_of(error), error.code) from error
        except ModuleNotFoundError as error:
            raise mistake(f"making {text}: {message_of(error)}{_wanted_at(error)}", "MODULE_NOT_FOUND") from error


def _wanted_at(error: ModuleNotFoundError) -> str:
    """Where the environment imports what is missing, and what to do about it."""
    from paddock.hosting.failure import place_of

    place = place_of(error)
    if place is None:
        return ""
    return (
        f" at {place}. Install it for {sys.executable}, whose packages are seen behind a wall too; for one that lies "
        f"elsewhere, add its folder to read under [permissions] in paddock.toml."
    )
