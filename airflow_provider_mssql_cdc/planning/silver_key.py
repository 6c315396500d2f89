"""The columns by which silver tells its rows apart, as the lake names them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_mssql_cdc.errors import ConfigurationError, UnsupportedKey
from airflow_provider_mssql_cdc.model.columns import Column
from airflow_provider_mssql_cdc.model.planned_column import PlannedColumn

_MICROSECOND_DIGITS = 6
_CUT_TYPES = frozenset({"datetime2", "datetimeoffset"})


def silver_key(
    key: Sequence[Column] | None, columns: Sequence[PlannedColumn], *, label: str
) -> tuple[str, ...]:
    """Names in the lake of the columns that identify a row, in key order.

    :param key: as the source's catalog, or the user, gives it; None when nothing identifies a row.
    :raises UnsupportedKey: there is none, or two rows of the source could become one in the lake.
    """
    if not key:
        raise UnsupportedKey(
            f"{label}: silver needs a key, and neither the capture instance nor the primary key gives one "
            'whose columns are all captured and NOT NULL. Bronze is complete without it; key=("…",) on the '
            "table names columns that identify a row"
        )
    planned = {column.source.name: column for column in columns}
    if missing := [column.name for column in key if column.name not in planned]:
        raise UnsupportedKey(f"{label}: key column(s) {', '.join(missing)} are not in bronze")
    if cut := [column.name for column in key if _is_cut(planned[column.name])]:
        casts = ", ".join(f'"{name}": "varchar(34)"' for name in cut)
        raise UnsupportedKey(
            f"{label}: key column(s) {', '.join(cut)} have seven digits after the second and the lake keeps "
            f"six, so two rows of the source could become one. Keep them as text, casts={{{casts}}}, in a "
            "new bronze"
        )
    return tuple(planned[column.name].lake.name for column in key)


def refuse_other_key(stored: Sequence[str], wanted: Sequence[str], *, silver: str) -> None:
    """:raises ConfigurationError: silver's rows are told apart by other columns."""
    if tuple(stored) != tuple(wanted):
        raise ConfigurationError(
            f"{silver} tells its rows apart by {', '.join(stored)}, and the key is {', '.join(wanted)} now: "
            "name another silver path, which is then built from bronze"
        )


def _is_cut(column: PlannedColumn) -> bool:
    """Whether the lake holds fewer digits than the source; a cast to text keeps all of them."""
    source = column.source.sql_type
    cut = source.name in _CUT_TYPES and source.scale > _MICROSECOND_DIGITS
    return cut and column.lake.data_type.startswith("timestamp")
