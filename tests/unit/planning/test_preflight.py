"""Preflight: every problem at once, each with what to do; notes for what could not be told."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.source_table import Column, SourceFacts, SourceTable, SqlType
from airflow_provider_mssql_cdc.planning.preflight import preflight
from airflow_provider_mssql_cdc.planning.types import ROW_LEVEL_SECURITY

INSTANCE = CaptureInstance(
    name="dbo_orders",
    source_schema="dbo",
    source_table="it's [orders]",
    source_object_id=1,
    change_table_id=2,
    start_lsn=None,
    create_date=datetime(2026, 1, 1),
    captured_columns=("id",),
    role_name="cdc reader",
)
GOOD = SourceFacts(
    capture_instance="dbo_orders",
    login="loader]",
    database="erp",
    cdc_enabled=True,
    table=SourceTable("erp", "dbo", "it's [orders]", 1),
    tracked=True,
    instance=INSTANCE,
    may_read_changes=True,
    in_gating_role=True,
    row_level_security=False,
    may_unmask=False,
    last_capture_age_seconds=12.0,
    snapshot_allowed=False,
    partitioned=False,
    database_collation="SQL_Latin1_General_CP1_CI_AS",
)


def test_a_good_table_has_neither_problems_nor_notes() -> None:
    found = preflight(GOOD)
    assert (found.problems, found.notes) == ((), ())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cdc_enabled": False}, ["is off in database erp", "EXEC sys.sp_cdc_enable_db"]),
        (
            {"instance": None, "tracked": False},
            ["is off for table dbo.it's [orders]", "@source_name = N'it''s [orders]', @role_name = NULL"],
        ),
        (
            {"instance": None},
            [
                "must be visible to user loader]",
                "GRANT SELECT ON [dbo].[it's [orders]]] TO [loader]]]",
                "ALTER ROLE <the role> ADD MEMBER [loader]]]",
            ],
        ),
        (
            {"instance": None, "table": None, "tracked": None, "other_instances": ("b", "a")},
            ["user loader] sees no capture instance dbo_orders in database erp", "visible ones: a, b"],
        ),
        (
            {"instance": None, "table": None, "tracked": None, "likely_table": ("dbo", "order]s")},
            [
                "user loader] sees no capture instance",
                "GRANT SELECT ON [dbo].[order]]s] TO [loader]]]",
                "GRANT SELECT ON [cdc].[dbo_orders_CT] TO [loader]]]",
                "ALTER ROLE <the role> ADD MEMBER [loader]]]",
            ],
        ),
        (
            {"instance": None, "table": None, "tracked": None, "other_instances": ("a",)},
            ["visible ones: a", "GRANT SELECT ON [<schema>].[<table>] TO [loader]]]"],
        ),
        (
            {"select_denied": ("id", "x]y")},
            ["may not read column(s) [id], [x]]y]", "GRANT SELECT ON [dbo].[it's [orders]]] TO [loader]]]"],
        ),
        ({"may_read_changes": False}, ["GRANT SELECT ON [cdc].[dbo_orders_CT] TO [loader]]]"]),
        ({"in_gating_role": False}, ["ALTER ROLE [cdc reader] ADD MEMBER [loader]]]"]),
        ({"table": None}, ["must be visible to user loader]", "GRANT SELECT ON [dbo].[it's [orders]]]"]),
        (
            {"instance": replace(INSTANCE, drop_pending=True)},
            ["is pending drop", "enable CDC on the table again"],
        ),
        ({"row_level_security": True}, ["has row-level security", f'allow=("{ROW_LEVEL_SECURITY}",)']),
        ({"memory_optimized": True}, ["must not be memory-optimized"]),
    ],
)
def test_each_problem_says_where_and_what_to_do(changed: dict[str, Any], said: list[str]) -> None:
    (problem,) = preflight(replace(GOOD, **changed)).problems
    assert [words for words in said if words not in problem] == []


def test_all_problems_are_reported_at_once() -> None:
    facts = replace(
        GOOD,
        select_denied=("id",),
        may_read_changes=False,
        in_gating_role=False,
        row_level_security=True,
        instance=replace(INSTANCE, drop_pending=True),
    )
    assert len(preflight(facts, isolation="snapshot").problems) == 6


def test_snapshot_isolation_that_is_not_allowed_is_a_problem_only_when_it_is_asked_for() -> None:
    assert preflight(GOOD, isolation=None).problems == ()
    (problem,) = preflight(GOOD, isolation="snapshot").problems
    assert "ALTER DATABASE [erp] SET ALLOW_SNAPSHOT_ISOLATION ON" in problem
    assert preflight(replace(GOOD, snapshot_allowed=True), isolation="snapshot").problems == ()


def test_row_level_security_is_accepted_by_name() -> None:
    facts = replace(GOOD, row_level_security=True)
    assert preflight(facts, allow={ROW_LEVEL_SECURITY}).problems == ()


def test_a_role_that_is_not_there_binds_nobody() -> None:
    facts = replace(GOOD, in_gating_role=False, instance=replace(INSTANCE, role_name=None))
    assert preflight(facts).problems == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"last_capture_age_seconds": None}, "it is unknown whether the capture job runs"),
        ({"last_capture_age_seconds": 6 * 3600.0}, "capture last wrote 360 minutes ago"),
        ({"row_level_security": None}, "has no VIEW DEFINITION"),
        ({"partitioned": True}, "switching a partition"),
    ],
)
def test_what_cannot_be_told_or_may_surprise_is_a_note_and_no_failure(
    changed: dict[str, Any], said: str
) -> None:
    found = preflight(replace(GOOD, **changed))
    assert found.problems == ()
    (note,) = found.notes
    assert said in note


def test_columns_whose_collation_is_not_the_databases_are_named() -> None:
    columns = [
        Column("c", 1, SqlType("varchar", 10, collation="Chinese_PRC_CI_AI")),
        Column("n", 2, SqlType("nvarchar", 10, collation="Chinese_PRC_CI_AI")),
        Column("d", 3, SqlType("varchar", 10, collation="SQL_Latin1_General_CP1_CI_AS")),
        Column("u", 4, SqlType("varchar", 10, collation="Chinese_PRC_CI_AI"), captured=False),
    ]
    (note,) = preflight(GOOD, columns=columns).notes
    assert note.startswith("column(s) [c] have another collation")


@pytest.mark.parametrize(
    ("asked", "visible", "meant"),
    [
        ("dbo_order", ("dbo_orders", "sales_customers"), "Did you mean dbo_orders?"),
        ("DBO_ODERS", ("dbo_orders",), "Did you mean dbo_orders?"),
        ("dbo.orders", ("dbo_orders",), "Did you mean dbo_orders?"),
        ("orders", ("dbo_orders", "zzz"), "Did you mean dbo_orders?"),
        ("dbo_orders_v3", ("dbo_Orders_v2", "hr"), "Did you mean dbo_Orders_v2?"),
        ("dbo_größen", ("dbo_groessen", "dbo_GRÖSSE"), "Did you mean dbo_GRÖSSE or dbo_groessen?"),
        ("dbo_orders", ("hr_people",), None),
        ("dbo_orders", (), None),
    ],
)
@pytest.mark.parametrize("table", [{"table": None, "tracked": None}, {"tracked": True}, {"tracked": False}])
def test_a_name_close_to_a_visible_instance_is_asked_about(
    asked: str, visible: tuple[str, ...], meant: str | None, table: dict[str, Any]
) -> None:
    facts = replace(GOOD, instance=None, capture_instance=asked, other_instances=visible, **table)
    (problem,) = preflight(facts).problems
    if meant is None:
        assert "Did you mean" not in problem
    else:
        assert meant in problem
