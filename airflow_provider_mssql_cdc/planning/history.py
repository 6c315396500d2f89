"""Whether the server that answers still has the history, and the table, that bronze was read from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_mssql_cdc.errors import ForeignTable
from airflow_provider_mssql_cdc.model.changes import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState, SourceIdentity
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


def is_other_object(state: BronzeState, identity: SourceIdentity) -> bool:
    """Whether another table has the source's name now than the one that was loaded.

    A rename and a transfer to another schema keep a table's object id, and a restored database keeps all of
    them; a table that is dropped and created again gets a new one (Microsoft Learn, "sys.objects").
    """
    known = state.source_object is not None and identity.object_id is not None
    return known and state.source_object != identity.object_id


def refuse_object_of_plan(planned: Iterable[int | None], identity: SourceIdentity) -> None:
    """Fail when rows that one plan asked for would come from two tables, or from another one than it saw.

    :param planned: the object id that each range was planned for; None is not known.
    :raises ForeignTable: with the object ids; nothing need be in bronze yet.
    """
    others = {each for each in planned if each is not None and each != identity.object_id}
    if others and identity.object_id is not None:
        raise ForeignTable(
            f"this plan was made for the table with object id {min(others)}, and {identity.label} is the "
            f"table with object id {identity.object_id} now: another table has taken its name since. Nothing "
            "of the plan is committed; clear the plan task with downstream"
        )


def refuse_other_object(state: BronzeState, identity: SourceIdentity, *, where: str) -> None:
    """Fail when changes, or rows, of another table would go on from those that were loaded.

    :param where: of bronze, for the message.
    :raises ForeignTable: with both object ids and the way on.
    """
    if is_other_object(state, identity):
        raise ForeignTable(
            f"{where} was loaded from the table with object id {state.source_object}, and {identity.label} "
            f"is the table with object id {identity.object_id} now: it was dropped and created again, or "
            "another table has taken its name. Its changes do not continue the rows that were loaded. If it "
            "is the one to load from now on, take a new snapshot: mssql_cdc_bootstrap(resnapshot=True); else "
            "name the capture instance of the first one, or another bronze path"
        )
