"""A column as it is planned: how it is read and what it becomes in the lake."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.columns import Column


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A captured column in bronze.

    :param name: its name in Delta; differs from the source's where Spark would refuse that one.
    :param source_name: the catalog's spelling.
    :param data_type: ``bool``, ``int16``, ``int32``, ``int64``, ``float32``, ``float64``,
        ``decimal(p,s)``, ``date``, ``timestamp_ntz``, ``timestamp`` (UTC), ``string`` or ``binary``.
    :param comment: for people: source name and type, and what the mapping changes.
    """

    name: str
    source_name: str
    data_type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """One column of the SELECT list: the source column, its projection and its place in the lake.

    :param projection: T-SQL that both drivers read alike, for instance ``CAST([qty] AS smallint)``;
        percent signs are doubled as in a :class:`~..tsql.statement.Statement`.
    """

    source: Column
    lake: LakeColumn
    projection: str
