"""Gymnasium's error names. They are paddock's own classes: an `except` for either name catches both."""

from paddock.errors import AlreadyPendingCallError as AlreadyPendingCallError
from paddock.errors import ClosedEnvironmentError as ClosedEnvironmentError
from paddock.errors import CustomSpaceError as CustomSpaceError
from paddock.errors import DependencyNotInstalled as DependencyNotInstalled
from paddock.errors import DeprecatedEnv as DeprecatedEnv
from paddock.errors import DeprecatedWrapper as DeprecatedWrapper
from paddock.errors import InvalidAction as InvalidAction
from paddock.errors import InvalidBound as InvalidBound
from paddock.errors import InvalidMetadata as InvalidMetadata
from paddock.errors import InvalidProbability as InvalidProbability
from paddock.errors import MissingArgument as MissingArgument
from paddock.errors import NameNotFound as NameNotFound
from paddock.errors import NamespaceNotFound as NamespaceNotFound
from paddock.errors import NoAsyncCallError as NoAsyncCallError
from paddock.errors import PaddockError as _PaddockError
from paddock.errors import RegistrationError as RegistrationError
from paddock.errors import ResetNeeded as ResetNeeded
from paddock.errors import UnregisteredEnv as UnregisteredEnv
from paddock.errors import UnsupportedMode as UnsupportedMode
from paddock.errors import VersionNotFound as VersionNotFound

Error = _PaddockError
