"""Names of files with change rows, and which of those that no commit names can never be committed any more.

A name holds the number of the commit that the file is staged for. A commit carries its number as a
transaction and is refused when that number is taken: so once bronze's own number has reached a file's, the
file is dead, whoever staged it and whether or not that process still lives.
"""

from __future__ import annotations

import re
import secrets

from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.changes import read_changes_state
from airflow_provider_mssql_cdc.lake.cleanup import remove_unnamed
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.changes import Window
from airflow_provider_mssql_cdc.model.facts import Event

_KINDS = ("changes", "repair")
_NAME = re.compile(r"(?:changes|repair)-(\d{12})-")


def file_prefix(event: Event, batch: int, window: Window) -> str:
    """What the names of one attempt's files begin with; random at its end, so never used before."""
    if event not in _KINDS:
        raise ValueError(f"no change rows are staged for {event}")
    return f"{event}-{batch:012d}-{window.after}-{secrets.token_hex(6)}"


def remove_dead_files(bronze: Bronze) -> int:
    """Remove staged change files that no version of the table names and none ever will; how many."""
    newest, storage = read_changes_state(bronze.table).batch, TableStorage(bronze.location)
    staged = [name for kind in _KINDS for name in storage.names(f"{kind}-")]
    dead = [name for name in staged if (match := _NAME.match(name)) and int(match[1]) <= newest]
    return remove_unnamed(bronze.location, dead)
