"""Names of the files that merges stage, and the removal of what a killed attempt left."""

from __future__ import annotations

import re
import secrets

from airflow_provider_mssql_cdc.lake.cleanup import remove_unnamed
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.lake.storage import TableStorage

_STAGED = re.compile(r"silver-(\d+)-([0-9a-f]{8})-")


def staging_prefix(version: int, run: str) -> str:
    """What the names of one attempt's files begin with; never used before.

    :param version: of bronze.
    :param run: eight hex digits that name the Airflow run.
    """
    return f"silver-{version:08d}-{run}-{secrets.token_hex(4)}"


def remove_orphans(silver: Silver, *, run: str, up_to: int) -> int:
    """Remove files that attempts of this run staged and no commit names; how many.

    :param up_to: silver's position: what was staged from this version of bronze, or an older one, can never
        be committed any more, since whoever staged it would have to find the position where it was.
    """
    names = TableStorage(silver.location).names("silver-")
    return remove_unnamed(silver.location, [name for name in names if _is_dead(name, run, up_to)])


def _is_dead(name: str, run: str, up_to: int) -> bool:
    staged = _STAGED.match(name)
    return staged is not None and staged[2] == run and int(staged[1]) <= up_to
