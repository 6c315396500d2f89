"""A source table that changes: what is read on, what is NULL from then on, and what stops."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.model.source_table import Column, LakeColumn, SqlType
from airflow_provider_mssql_cdc.planning.columns import ColumnDrift, SchemaDecision, decide_schema

INT = SqlType("int")


def source(**ids: int) -> tuple[Column, ...]:
    return tuple(Column(name, number, INT) for name, number in ids.items())


def added(name: str) -> LakeColumn:
    return LakeColumn(name, name, "int32")


RECORDED = {("id", 1), ("qty", 2)}


@pytest.mark.parametrize(
    ("drift", "columns", "recorded", "accept_nulls", "expected"),
    [
        pytest.param(ColumnDrift(), source(id=1, qty=2), RECORDED, False, SchemaDecision(), id="as it was"),
        pytest.param(
            ColumnDrift(),
            source(id=1, qty=2, note=3),
            RECORDED,
            False,
            SchemaDecision(uncaptured=("note",)),
            id="a new column that CDC does not record is reported",
        ),
        pytest.param(
            ColumnDrift(),
            source(id=1),
            RECORDED,
            False,
            SchemaDecision(dropped=("qty",)),
            id="dropped: NULL from then",
        ),
        pytest.param(
            ColumnDrift(absent=("qty",)),
            source(id=1),
            {("id", 1)},
            False,
            SchemaDecision(dropped=("qty",)),
            id="dropped, and a newer instance",
        ),
        pytest.param(
            ColumnDrift(added=(added("note"),)),
            source(id=1, qty=2, note=3),
            {*RECORDED, ("note", 3)},
            True,
            SchemaDecision(add=(added("note"),)),
            id="a new column, accepted",
        ),
        pytest.param(
            ColumnDrift(added=(added("note"),)),
            source(id=1, qty=2, note=3),
            {*RECORDED, ("note", 3)},
            False,
            r'new_columns="null".*resnapshot=True',
            id="a new column stops and says both ways",
        ),
        pytest.param(
            ColumnDrift(absent=("qty",)),
            source(id=1, qty=2),
            {("id", 1)},
            True,
            "qty.*would become NULL",
            id="a column that is there and not recorded stops, whatever is accepted",
        ),
        pytest.param(
            ColumnDrift(),
            source(id=1, qty=7),
            RECORDED,
            True,
            "dropped and added again",
            id="dropped and added again: the old one is recorded, as NULL",
        ),
        pytest.param(
            ColumnDrift(retyped=("qty is int32 in bronze, the source has int64",)),
            source(id=1, qty=2),
            RECORDED,
            True,
            "qty is int32.*casts",
            id="another type stops",
        ),
    ],
)
def test_what_a_change_of_columns_means(
    drift: ColumnDrift,
    columns: tuple[Column, ...],
    recorded: set[tuple[str, int]],
    accept_nulls: bool,
    expected: object,
) -> None:
    asked = {"source_columns": columns, "recorded": recorded, "accept_nulls": accept_nulls}
    if isinstance(expected, str):
        with pytest.raises(SchemaDrift, match=expected):
            decide_schema(drift, instance="dbo_t", **asked)
    else:
        assert decide_schema(drift, instance="dbo_t", **asked) == expected


def test_a_computed_column_is_nobodys_business() -> None:
    total = Column("total", 3, INT, computed=True)
    columns = (*source(id=1, qty=2), total)
    decision = decide_schema(
        ColumnDrift(),
        instance="dbo_t",
        source_columns=columns,
        recorded={*RECORDED, ("total", 3)},
        accept_nulls=False,
    )
    assert decision.uncaptured == ()
