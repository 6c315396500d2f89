"""Whether the server that answers still has the history that bronze was read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.changes import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.windows import is_same_commit_time


@dataclass(frozen=True, slots=True)
class HistoryAnswers:
    """What one session said, in the order of the fields, outside any transaction.

    :param reached: ``now()``; None where capture never ran.
    :param entries: of each LSN that bronze holds with a commit time, the mapping's entry for it; its
        ``time`` is None where there is none.
    :param smallest: the mapping's lowest entry; None where it is empty or may not be read.
    :param low: the lowest LSN from which changes are kept; None where no one knows yet.
    """

    reached: Lsn | None
    entries: Sequence[tuple[CommitStamp, CommitStamp | None]]
    smallest: Lsn | None
    low: Lsn | None


def other_history(answers: HistoryAnswers) -> str | None:
    """What proves another history, as a sentence; None for a server that may be the same one.

    An LSN whose commit time came from ``cdc.lsn_time_mapping`` has an entry for as long as an instance
    keeps changes from there on: cleanup raises ``low`` before it deletes, and ``low`` is asked last. A
    mapping that begins above the LSN was trimmed by somebody, which proves nothing.
    """
    for stored, found in answers.entries:
        if found is not None:
            if not is_same_commit_time(stored.time, found.time):
                return (
                    f"LSN {stored.lsn} was committed at {stored.time.isoformat()} when it was read, and the "
                    f"server now says {found.time.isoformat()}: it has been given out again"
                )
        elif _has_to_be_there(stored.lsn, answers):
            return (
                f"LSN {stored.lsn}, committed at {stored.time.isoformat()} when it was read, is no commit of "
                f"this server, although it keeps all changes from {answers.low} on"
            )
    return None


def _has_to_be_there(lsn: Lsn, answers: HistoryAnswers) -> bool:
    kept = answers.low is not None and lsn >= answers.low
    return kept and answers.smallest is not None and answers.smallest <= lsn
