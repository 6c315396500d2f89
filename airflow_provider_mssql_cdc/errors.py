"""Every error this package raises, in one tree.

::

    MssqlCdcError
    ├── RetryableError              Airflow tries again
    │   ├── DeadlockVictim          the server chose this statement (1205)
    │   ├── LockTimeout             SET LOCK_TIMEOUT ran out (1222)
    │   ├── ConnectionBroken        network, failover, timeout, a result that ended early
    │   │   └── ServerUnreachable   no connection was made: name, port, route or silence
    │   ├── ServerBusy              throttled, paused or moving (Azure), update conflict (3960)
    │   ├── ReplicaBehind           the session's own now() is below the stamp it would write
    │   ├── NotReadyYet             capture has not reached what is needed
    │   ├── CountsDiffer            a range has other rows than the server counts in it
    │   ├── CommitConflict          a Delta commit lost to concurrent ones too often
    │   └── StorageFailed           an operation of a folder or an object store failed
    └── PermanentError              no retry can succeed; the cause must be removed
        ├── ConfigurationError      an argument, a connection or a bound that cannot be used
        ├── PreflightFailed         several problems found before the first read
        ├── LoginFailed             wrong user, password or database
        ├── PermissionDenied        a missing GRANT, named
        ├── SourceObjectMissing     a table, column or capture instance that is not there
        ├── StatementFailed         the server refused a statement for a reason not named here
        ├── UnsupportedKey          a key that cannot be cut or matched
        ├── ValueDoesNotFit         a value that its planned column cannot hold
        ├── IsolationRefused        SNAPSHOT configured and not allowed (3952)
        ├── RetentionGap            changes that are needed have been purged
        ├── SchemaDrift             bronze, a staged file and the plan disagree on columns
        ├── Superseded              a newer snapshot has replaced this one
        ├── ForeignTable            a Delta table that belongs to another source
        ├── StateDamaged            bronze's transactions contradict its rows or its log
        ├── SilverDiffers           a reconcile found rows that do not equal the source's
        └── IncompletePlan          ranges or staged files are missing

``retryable`` is a fact of the class. A message says what happened, where, and what to do next; it
never holds a credential or a key value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class MssqlCdcError(Exception):
    """Root of the tree; ``retryable`` says whether another attempt can succeed."""

    retryable: ClassVar[bool] = False


class RetryableError(MssqlCdcError):
    """Another attempt may succeed without any action."""

    retryable = True


class DeadlockVictim(RetryableError):
    """The server chose this statement as a deadlock victim (1205)."""


class LockTimeout(RetryableError):
    """A lock was not granted within the connection's lock timeout (1222)."""


class ConnectionBroken(RetryableError):
    """The connection failed, timed out, or a result ended before its end."""


class ServerUnreachable(ConnectionBroken):
    """No connection was made: the host is unknown, refuses, has no route or does not answer."""


class ServerBusy(RetryableError):
    """The server refused for now: it is throttled, paused or moving, or an update conflicted."""


class ReplicaBehind(RetryableError):
    """The server is behind the LSN that rows would be stamped with."""


class NotReadyYet(RetryableError):
    """Capture has not yet reached what is needed."""


class CountsDiffer(RetryableError):
    """A range has another number of rows than the server counts in it."""


class CommitConflict(RetryableError):
    """A Delta commit lost to concurrent commits too often."""


class StorageFailed(RetryableError):
    """An operation of a Delta table's file system or object store failed."""


class PermanentError(MssqlCdcError):
    """Another attempt fails the same way; the message says what to change."""


class ConfigurationError(PermanentError):
    """An argument, a connection or a plan item that cannot be used."""


class PreflightFailed(PermanentError):
    """Preflight found problems before the first read.

    ``problems`` holds one sentence each, with its remedy.
    """

    def __init__(self, where: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        lines = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, start=1))
        super().__init__(f"{where} cannot be loaded, {len(self.problems)} problem(s):{lines}")


class LoginFailed(PermanentError):
    """The server refused the login or does not have the database."""


class PermissionDenied(PermanentError):
    """The login lacks a right; the message holds the GRANT."""


class SourceObjectMissing(PermanentError):
    """A table, a column or a capture instance that is not there."""


class StatementFailed(PermanentError):
    """The server refused a statement for a reason this package has no class for."""


class UnsupportedKey(PermanentError):
    """A key that cannot be cut into ranges or that does not identify a row."""


class ValueDoesNotFit(PermanentError):
    """A value that the planned column type cannot hold.

    ``column`` is the source's column, when the error names it.
    """

    def __init__(self, message: str, *, column: str | None = None) -> None:
        self.column = column
        super().__init__(message)


class IsolationRefused(PermanentError):
    """SNAPSHOT isolation is configured and the database does not allow it (3952)."""


class RetentionGap(PermanentError):
    """Changes that are needed have been purged by CDC cleanup."""


class SchemaDrift(PermanentError):
    """The columns of the source, a staged file and bronze do not agree."""


class Superseded(PermanentError):
    """A newer snapshot has replaced this one."""


class ForeignTable(PermanentError):
    """A Delta table that belongs to another source table."""


class StateDamaged(PermanentError):
    """Bronze's transactions contradict its rows or its log."""


class SilverDiffers(PermanentError):
    """A reconcile has found rows of silver that do not equal the source's."""


class IncompletePlan(PermanentError):
    """Ranges of a plan, or files that they staged, are missing."""


def listed(names: Sequence[object], *, most: int = 20) -> str:
    """Join names for a message: the first ``most``, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more
