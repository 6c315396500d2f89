"""The arguments of ``sys.sp_cdc_enable_table``: what they default to and what is refused. Pure."""

from __future__ import annotations

import re

from airflow_provider_mssql_cdc.embedded.cdc.errors import cdc_error

NAME_LENGTH = 100
RESERVED_COLUMNS = ("__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask")

_QUOTED = re.compile(r'\s*(?:\[((?:[^\]]|\]\])*)\]|"((?:[^"]|"")*)"|([^,\["]+?))\s*(?:,|$)')


def parse_column_list(text: str) -> list[str]:
    """The names in ``@captured_column_list``: bare, ``[bracketed]`` or ``"quoted"``, comma between.

    Raises 22965 where a quoted name does not end.
    """
    names, at = [], 0
    while at < len(text):
        found = _QUOTED.match(text, at)
        if found is None or found.end() == at:
            raise cdc_error(22965)
        bracketed, quoted, bare = found.groups()
        if bracketed is not None:
            names.append(bracketed.replace("]]", "]"))
        elif quoted is not None:
            names.append(quoted.replace('""', '"'))
        else:
            names.append(bare)
        at = found.end()
    return names


def instance_name(given: str | None, schema: str, table: str) -> str:
    """``@capture_instance``, by default ``schema_table``; raises 22927 above 100 characters."""
    name = given or f"{schema}_{table}"
    if len(name) > NAME_LENGTH:
        raise cdc_error(22927, name)
    return name


def quote_names(names: tuple[str, ...]) -> str:
    """``[a], [b]``, as the help procedure lists columns."""
    return ", ".join("[" + name.replace("]", "]]") + "]" for name in names)
