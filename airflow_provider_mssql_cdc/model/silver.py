"""Values of silver, the current state that is kept from bronze: what it was built from, what a merge did."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.lsn import Lsn


@dataclass(frozen=True, slots=True)
class SilverPosition:
    """What silver's rows were built from; kept in its transactions, in the same commit as the rows.

    :param bronze: a number of 63 bits that stands for bronze's table id: a bronze that is made anew at the
        same place counts its versions from zero.
    :param version: of bronze; every change row in it is in silver.
    :param snapshot: S of the snapshot whose rows silver began with.
    :param changes: how far bronze's changes reached then.
    """

    bronze: int
    version: int
    snapshot: Lsn
    changes: Lsn


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """What a merge or a rebuild did to silver, in rows and in files.

    :param changed_keys: keys that bronze's new change rows name.
    :param inserted: rows of keys that silver did not have.
    :param updated: rows that took the place of a row of the same key.
    :param deleted: rows that were taken out.
    :param files_kept: files that were not touched.
    """

    changed_keys: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files_added: int = 0
    files_removed: int = 0
    files_kept: int = 0
