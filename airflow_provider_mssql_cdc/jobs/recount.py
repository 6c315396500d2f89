"""``verify_counts``: the rows that were staged against the server's own count of the range."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.errors import CountsDiffer, PermissionDenied
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.source.measure import count_rows
from airflow_provider_mssql_cdc.tsql.cdc import any_change

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.model.key_range import KeyRange
    from airflow_provider_mssql_cdc.source.session import SourceSession

log = logging.getLogger(__name__)


def verify_count(
    session: SourceSession,
    source: LoadableTable,
    *,
    key_range: KeyRange,
    rows: int,
    since: Lsn,
    label: str,
) -> None:
    """Count the range again and compare.

    Under SNAPSHOT, within the transaction that read the rows, the numbers have to agree. Under READ
    COMMITTED they have to on a quiet table: one of which CDC has recorded no change since ``since``. Where
    it has, a difference is said and left at that; a change that capture has not come to yet looks like a
    fault, so the error is one that another attempt may not see.

    :param since: what capture had reached before the read.
    :raises CountsDiffer: another number, and no change that could explain it.
    """
    counted = count_rows(session, source.description.table, source.split_columns, key_range)
    if counted == rows:
        log.info("%s: recounted on the server, %d rows in both", label, rows)
        return
    if session.isolation is None and _has_changed(session, source, since=since):
        log.warning(
            "%s: %d rows were read and %d are counted now; the table has changed meanwhile, so that the "
            "numbers prove nothing. Changes bring the difference",
            *(label, rows, counted),
        )
        return
    raise CountsDiffer(
        f"{label}: {rows:,} rows were read and the server counts {counted:,}, though CDC shows no change of "
        "the table since. Nothing of this range is committed. A commit that capture has not come to yet "
        'looks like this too: on a table that is written to, read under isolation="snapshot" or leave '
        "verify_counts out"
    )


def _has_changed(session: SourceSession, source: LoadableTable, *, since: Lsn) -> bool:
    instance = source.description.instance
    try:
        found = session.value(any_change(instance.name, after=since), doing="looking for changes")
    except PermissionDenied:
        return False
    return bool(found)
