"""Which files of bronze and silver are joined, and in which order their rows are written."""

from __future__ import annotations

import pyarrow.compute as pc

from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import StoredFile, stored_files
from airflow_provider_mssql_cdc.lake.join_files import JoinedFiles, join_files
from airflow_provider_mssql_cdc.lake.silver.files import TARGET_BYTES as SILVER_TARGET_BYTES
from airflow_provider_mssql_cdc.lake.silver.files import current_files, in_key_order
from airflow_provider_mssql_cdc.lake.silver.rows import sorted_indices
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.lake.staging import TARGET_BYTES
from airflow_provider_mssql_cdc.planning.merge import DELETE


def compact_bronze(bronze: Bronze, *, run_id: str, target_bytes: int = TARGET_BYTES) -> JoinedFiles:
    """Join files of changes; in the order of their LSNs, so that the changes of a window stay together.

    Files with snapshot rows, and files without statistics, are left alone.
    """
    return join_files(
        bronze,
        lambda: _change_files(bronze),
        sort=lambda rows: sorted_indices(rows, ()),
        target_bytes=target_bytes,
        user_metadata={"run_id": run_id},
    )


def _change_files(bronze: Bronze) -> list[StoredFile]:
    files = [
        file
        for file in stored_files(bronze.table, ("_start_lsn", "_operation"))
        if file.records is not None
        and file.bounds.get("_operation", (0, 0))[0] >= DELETE
        and "_start_lsn" in file.bounds
        and is_own(file)
    ]
    return sorted(files, key=lambda file: file.bounds["_start_lsn"])


def is_own(file: StoredFile) -> bool:
    """Return whether the file is in the table's folder; a shallow clone names files of another table."""
    return "://" not in file.path


def compact_silver(silver: Silver, *, run_id: str, target_bytes: int = SILVER_TARGET_BYTES) -> JoinedFiles:
    """Join files of silver, in the order of the first key column.

    :raises StateDamaged: silver's rows do not match its position; the next merge builds it again.
    """
    keys = [(name, "ascending") for name in silver.key]
    return join_files(
        silver,
        lambda: [file for file in in_key_order(current_files(silver), silver.key[0]) if is_own(file)],
        sort=lambda rows: pc.sort_indices(rows, sort_keys=keys),
        target_bytes=target_bytes,
        user_metadata={"run_id": run_id},
        check=lambda: _refuse_damaged(silver),
    )


def _refuse_damaged(silver: Silver) -> None:
    # A commit above a RESTORE would hide it: only commits above our newest are read from the log.
    if (damage := silver.damage) is not None:
        raise StateDamaged(
            f"{silver.location}: {damage}. Its files are left alone; the next merge builds silver again"
        )
