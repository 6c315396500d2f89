"""What was decided, done: silver built anew, merged into, or left as it is."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_mssql_cdc.lake.added_files import LogForgotten
from airflow_provider_mssql_cdc.lake.silver.files import current_files
from airflow_provider_mssql_cdc.lake.silver.merge import MergeCommit, MergeRequest, merge_changes, rebuild
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.model.silver import MergeCounts
from airflow_provider_mssql_cdc.planning.merge_decision import MergeSince, Rebuild, UpToDate

log = logging.getLogger(__name__)


def keep(
    request: MergeRequest, decision: Rebuild | MergeSince | UpToDate, *, confirm_empty: Callable[[], None]
) -> MergeCommit:
    """Bring silver to the version of bronze that the decision was taken on.

    Where bronze no longer tells what came since silver's position, silver is built anew.

    :param confirm_empty: called before a silver with rows is left without any; raises unless that is right.
    :raises SilverMoved: another merge was first.
    """
    silver = request.silver
    if isinstance(decision, UpToDate):
        return _as_it_is(silver)
    if added := silver.take_on_columns(request.bronze):
        log.info("%s takes on column(s) %s", silver.location, ", ".join(added))
    if isinstance(decision, MergeSince):
        try:
            return merge_changes(request, since=decision.version)
        except LogForgotten as exc:
            decision = Rebuild(f"of what came into bronze since version {decision.version}, {exc}")
    log.info("%s is built from bronze: %s", silver.location, decision.reason)
    return rebuild(request, reason=decision.reason, confirm_empty=confirm_empty)


def _as_it_is(silver: Silver) -> MergeCommit:
    position, files = silver.position, current_files(silver)
    assert position is not None
    counts = MergeCounts(files_kept=len(files))
    return MergeCommit(silver.version, sum(file.rows for file in files), position, counts)
