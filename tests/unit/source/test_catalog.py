"""What a login sees of a table, and why it sees nothing: told apart, with the remedy."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    MssqlCdcError,
    PermissionDenied,
    PreflightFailed,
    SourceObjectMissing,
)
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.source_table import SqlType
from airflow_provider_mssql_cdc.source.catalog import SourceDescription, describe
from airflow_provider_mssql_cdc.source.gathered import AHEAD_SECONDS, SourceName, gather, gather_ahead
from airflow_provider_mssql_cdc.source.instances import choose_instance, names_in
from airflow_provider_mssql_cdc.source.session import SourceSession
from tests.unit.source.conftest import settings_for


@pytest.fixture(scope="module", autouse=True)
def tables(server: EmbeddedSqlServer) -> None:
    items = (
        "line int NOT NULL, order_id bigint NOT NULL, note nvarchar(50) COLLATE Latin1_General_CS_AS, "
        "price decimal(18, 4), total AS price * 2, at datetime2(3), seen rowversion"
    )
    ledger = "dbo.[Acme Inc$Ledger ]]x, Entry]"
    for statement in (
        "CREATE SCHEMA sales",
        f"CREATE TABLE dbo.ORDER_ITEMS ({items}, CONSTRAINT pk_items PRIMARY KEY (order_id, line))",
        "CREATE UNIQUE INDEX ux_note ON dbo.ORDER_ITEMS (note) INCLUDE (price) WHERE note IS NOT NULL",
        "CREATE TABLE dbo.untracked (id int NOT NULL PRIMARY KEY)",
        "CREATE TABLE sales.untracked (id int NOT NULL PRIMARY KEY)",
        f"CREATE TABLE {ledger} ([Entry No_] int NOT NULL PRIMARY KEY, [a,b] int, [c]]d] int)",
        "CREATE TABLE dbo.hidden (id int NOT NULL PRIMARY KEY, secret int)",
    ):
        server.execute(statement)
    server.enable_cdc("dbo.ORDER_ITEMS")
    server.enable_cdc("dbo.Acme Inc$Ledger ]x, Entry", capture_instance="ledger")
    server.enable_cdc("dbo.hidden", role_name="cdc_reader")
    server.add_login("reader", grants=["SELECT ON dbo.ORDER_ITEMS", "SELECT ON cdc.dbo_ORDER_ITEMS_CT"])
    server.add_login("viewer", grants=["VIEW DEFINITION ON dbo.ORDER_ITEMS"])
    server.add_login("nobody")
    server.add_login(
        "half", roles=["cdc_reader"], grants=["SELECT ON dbo.hidden(id)", "SELECT ON cdc.dbo_hidden_CT"]
    )


def described(
    server: EmbeddedSqlServer, driver: str, name: str, *, login: str = "sa", source: Any = None
) -> SourceDescription:
    with SourceSession(settings_for(server, driver, login=login)) as session:
        return describe(session, capture_instance=name, source=source)


@pytest.mark.parametrize("name", ["dbo_ORDER_ITEMS", "dbo_order_items", "DBO_Order_Items"])
def test_an_instance_is_found_whatever_the_case_and_keeps_the_catalog_s_spelling(
    server: EmbeddedSqlServer, driver: str, name: str
) -> None:
    found = described(server, driver, name)
    assert found.instance.name == "dbo_ORDER_ITEMS"
    assert found.table.label == "dbo.ORDER_ITEMS"
    assert found.table.database == "shop"
    assert found.problems == ()


def test_columns_types_and_keys_are_the_catalog_s(server: EmbeddedSqlServer, driver: str) -> None:
    found = described(server, driver, "dbo_order_items")
    by_name = {column.name: column for column in found.columns}
    assert list(by_name) == ["line", "order_id", "note", "price", "total", "at", "seen"]
    assert by_name["note"].sql_type == SqlType("nvarchar", 100, collation="Latin1_General_CS_AS")
    assert by_name["price"].sql_type == SqlType("decimal", precision=18, scale=4)
    assert by_name["at"].sql_type == SqlType("datetime2", scale=3)
    assert by_name["seen"].sql_type == SqlType("rowversion")
    assert [column.name for column in found.columns if column.computed] == ["total"]
    assert [column.name for column in found.columns if not column.nullable] == ["line", "order_id", "seen"]
    assert found.instance.index_columns == ("order_id", "line")
    indexes = {index.name: index for index in found.unique_indexes}
    assert indexes["pk_items"].columns == ("order_id", "line")
    assert indexes["pk_items"].primary
    assert indexes["ux_note"].columns == ("note",)
    assert indexes["ux_note"].filtered


def test_both_drivers_describe_a_table_alike(server: EmbeddedSqlServer) -> None:
    first, second = (described(server, driver, "ledger") for driver in ("mssql-python", "pymssql"))
    assert (first.table, first.columns, first.unique_indexes) == (
        second.table,
        second.columns,
        second.unique_indexes,
    )
    assert first.instance == second.instance


def test_awkward_names_come_through(server: EmbeddedSqlServer, driver: str) -> None:
    found = described(server, driver, "ledger")
    assert found.table.name == "Acme Inc$Ledger ]x, Entry"
    assert [column.name for column in found.columns] == ["Entry No_", "a,b", "c]d"]
    assert all(column.captured for column in found.columns)
    assert found.instance.captured_columns == ("Entry No_", "a,b", "c]d")


def test_a_login_with_the_least_rights_describes_its_table(server: EmbeddedSqlServer, driver: str) -> None:
    found = described(server, driver, "dbo_order_items", login="reader")
    assert found.problems == ()
    assert found.facts.login == "reader"
    assert found.facts.may_read_changes is True


def test_a_tracked_table_whose_instance_does_not_show_is_a_missing_grant(
    server: EmbeddedSqlServer, driver: str
) -> None:
    with pytest.raises(PermissionDenied, match=r"GRANT SELECT ON \[dbo\]\.\[ORDER_ITEMS\] TO \[viewer\]"):
        described(server, driver, "dbo_order_items", login="viewer")


def test_a_login_that_sees_nothing_is_told_what_it_needs(server: EmbeddedSqlServer, driver: str) -> None:
    with pytest.raises((PermissionDenied, SourceObjectMissing)) as caught:
        described(server, driver, "dbo_order_items", login="nobody")
    for grant in (
        "GRANT SELECT ON [dbo].[order_items] TO [nobody]",
        "GRANT SELECT ON [cdc].[dbo_order_items_CT] TO [nobody]",
        "ALTER ROLE <the role> ADD MEMBER [nobody]",
    ):
        assert grant in str(caught.value)


def test_a_column_that_may_not_be_read_is_named_with_the_grant(
    server: EmbeddedSqlServer, driver: str
) -> None:
    try:
        problems: tuple[str, ...] = described(server, driver, "dbo_hidden", login="half").problems
    except (PermissionDenied, SourceObjectMissing) as exc:
        problems = (str(exc),)
    assert any("half" in problem and "GRANT SELECT" in problem for problem in problems)


@pytest.mark.parametrize(
    ("name", "source", "error", "said"),
    [
        ("dbo_untracked", None, PreflightFailed, r"change data capture is off for table dbo\.untracked"),
        ("whatever", ("sales", "untracked"), PreflightFailed, r"off for table sales\.untracked"),
        (
            "dbo_nothing",
            None,
            SourceObjectMissing,
            r"no capture instance dbo_nothing .*visible ones: .*dbo_ORDER_ITEMS",
        ),
        ("dbo_order_item", None, SourceObjectMissing, r"Did you mean dbo_ORDER_ITEMS\?"),
        (
            "ledger",
            ("dbo", "untracked"),
            ConfigurationError,
            r"ledger belongs to dbo\.Acme .*, not to dbo\.untracked",
        ),
    ],
)
def test_why_an_instance_is_not_there_is_told_apart(
    server: EmbeddedSqlServer,
    driver: str,
    name: str,
    source: tuple[str, str] | None,
    error: type[MssqlCdcError],
    said: str,
) -> None:
    with pytest.raises(error, match=said):
        described(server, driver, name, source=source)


def test_cdc_off_on_the_database_says_so(driver: str) -> None:
    with EmbeddedSqlServer(database="plain") as server:
        server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY)")
        with pytest.raises(PreflightFailed, match="capture is off in database plain"):
            described(server, driver, "dbo_orders")


def test_source_is_accepted_in_any_case_when_it_agrees(server: EmbeddedSqlServer, driver: str) -> None:
    assert (
        described(server, driver, "dbo_order_items", source=("DBO", "order_items")).table.name
        == "ORDER_ITEMS"
    )


def test_snapshot_isolation_that_is_off_is_a_problem_before_anything_is_read(
    server: EmbeddedSqlServer, driver: str
) -> None:
    with SourceSession(settings_for(server, driver), isolation="snapshot") as session:
        found = describe(session, capture_instance="dbo_order_items")
    assert any("SET ALLOW_SNAPSHOT_ISOLATION ON" in problem for problem in found.problems)


def instance(name: str) -> CaptureInstance:
    from datetime import datetime

    return CaptureInstance(name, "dbo", "t", 1, 2, None, datetime(2024, 1, 1), ("id",))


def test_two_names_that_differ_by_case_only_are_an_error_unless_one_is_exact() -> None:
    found = [instance("dbo_t"), instance("DBO_T")]
    assert choose_instance(found, "DBO_T") is found[1]
    with pytest.raises(ConfigurationError, match="DBO_T and dbo_t"):
        choose_instance(found, "Dbo_T")
    assert choose_instance(found, "other") is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[a], [b]", ("a", "b")),
        ("[a, b], [c]]d], [e f]", ("a, b", "c]d", "e f")),
        ("[a]]], []]b]", ("a]", "]b")),
        ("", ()),
        (None, ()),
    ],
)
def test_a_bracketed_list_of_columns_is_taken_apart(text: str | None, names: tuple[str, ...]) -> None:
    assert names_in(text) == names


# -- how few it asks for, and what comes of a guess


@pytest.fixture(scope="module")
def likely(server: EmbeddedSqlServer, tables: None) -> None:
    """Instances whose name says another table than theirs, one that is, one that is not tracked."""
    for statement in (
        "CREATE TABLE dbo.likely (id int NOT NULL PRIMARY KEY)",
        "CREATE TABLE dbo.other_likely (id int NOT NULL PRIMARY KEY)",
    ):
        server.execute(statement)
    server.enable_cdc("dbo.likely")
    server.enable_cdc("dbo.other_likely", capture_instance="dbo_ORDER_ITEMS_2")
    server.enable_cdc("dbo.other_likely", capture_instance="dbo_untracked")


@pytest.mark.parametrize("name", ["dbo_ORDER_ITEMS_2", "dbo_untracked"])
def test_an_instance_whose_name_says_another_table_is_found(
    server: EmbeddedSqlServer, driver: str, likely: None, name: str
) -> None:
    assert described(server, driver, name).table.label == "dbo.other_likely"


@pytest.mark.parametrize("likely_one", ["dbo.swapped", "dbo.swapped_in"])
def test_a_table_that_is_renamed_while_it_is_described_is_asked_for_by_its_object_id(
    server: EmbeddedSqlServer, driver: str, likely_one: str
) -> None:
    """The name may mean another table when the columns are asked for than when the instances were."""
    for name, columns in (("swapped", "id int NOT NULL PRIMARY KEY"), ("swapped_in", "other bigint")):
        server.execute(f"DROP TABLE IF EXISTS dbo.{name}")
        server.execute(f"CREATE TABLE dbo.{name} ({columns}, note nvarchar(5))")
    server.enable_cdc(likely_one, capture_instance="dbo_swapped")
    with SourceSession(settings_for(server, driver)) as session:
        name = SourceName("dbo_swapped", source=tuple(likely_one.split(".")))  # type: ignore[arg-type]
        (told,) = gather(session, [name])
        (other,) = gather(session, [SourceName("dbo_swapped", source=("dbo", "swapped"))])
        mixed = replace(told, about=other.about)
        session.remembered[name] = (time.monotonic(), mixed)
        found = describe(session, capture_instance=name.capture_instance, source=name.source)
    assert [column.name for column in found.columns] == (
        ["id", "note"] if likely_one == "dbo.swapped" else ["other", "note"]
    )


def test_many_tables_are_described_by_one_batch_each_as_if_alone(
    server: EmbeddedSqlServer, driver: str, likely: None
) -> None:
    """Among them some whose description is an error, and some that the name leads to only later."""
    names = [
        *(
            SourceName(name)
            for name in ("dbo_ORDER_ITEMS", "ledger", "dbo_hidden", "dbo_nowhere", "dbo_likely")
        ),
        SourceName("ledger", source=("dbo", "Acme Inc$Ledger ]x, Entry")),
        SourceName("dbo_ORDER_ITEMS", source=("dbo", "likely")),
        SourceName("a_" + "x" * 98),
    ]

    def outcome(session: SourceSession, name: SourceName) -> SourceDescription | tuple[type, str]:
        try:
            found = describe(session, capture_instance=name.capture_instance, source=name.source)
        except MssqlCdcError as exc:
            return type(exc), str(exc)
        return replace(found, facts=replace(found.facts, last_capture_age_seconds=None), notes=())

    with SourceSession(settings_for(server, driver)) as session:
        alone = [outcome(session, name) for name in names]
    with SourceSession(settings_for(server, driver)) as session:
        gather_ahead(session, names)
        assert [outcome(session, name) for name in names] == alone
    assert {type(one) for one in alone} == {SourceDescription, tuple}


def test_a_name_that_no_object_can_have_spoils_the_others_nothing(
    server: EmbeddedSqlServer, driver: str
) -> None:
    with SourceSession(settings_for(server, driver)) as session:
        one, other = gather(session, [SourceName("a_" + "x" * 200), SourceName("dbo_ORDER_ITEMS")])
    assert one.about is None
    assert other.about is not None
    assert other.about.table.rows[0]["table_name"] == "ORDER_ITEMS"


def test_what_was_asked_ahead_is_used_once(server: EmbeddedSqlServer, driver: str) -> None:
    with SourceSession(settings_for(server, driver)) as session:
        gather_ahead(session, [SourceName("dbo_ORDER_ITEMS")])
        sent = len(server.faults.log())
        describe(session, capture_instance="dbo_ORDER_ITEMS")
        assert len(server.faults.log()) == sent
        describe(session, capture_instance="dbo_ORDER_ITEMS")
        assert len(server.faults.log()) == sent + 1


def test_what_was_asked_ahead_too_long_ago_is_asked_again(server: EmbeddedSqlServer, driver: str) -> None:
    name = SourceName("dbo_ORDER_ITEMS")
    with SourceSession(settings_for(server, driver)) as session:
        (told,) = gather(session, [name])
        session.remembered[name] = (time.monotonic() - AHEAD_SECONDS, told)
        sent = len(server.faults.log())
        describe(session, capture_instance="dbo_ORDER_ITEMS")
        assert len(server.faults.log()) == sent + 1


def test_a_name_that_differs_by_case_is_looked_up_among_all(
    server: EmbeddedSqlServer, driver: str, likely: None
) -> None:
    before = len(server.faults.log())
    assert described(server, driver, "dbo_LIKELY").instance.name == "dbo_likely"
    texts = [statement.sql for statement in server.faults.log()[before:]]
    helps = [text for text in texts if "sp_cdc_help_change_data_capture" in text]
    assert ["@source_name" in text for text in helps] == [True, False]


def test_an_engine_that_lacks_a_view_answers_the_rest_and_is_asked_for_it_apart_from_then_on(
    server: EmbeddedSqlServer, driver: str
) -> None:
    fault = server.faults.fail("sys.security_predicates", 208, times=None)
    try:
        with SourceSession(settings_for(server, driver)) as session:
            found = describe(session, capture_instance="dbo_ORDER_ITEMS")
            failed, sent = fault.acted, len(server.faults.log())
            assert describe(session, capture_instance="dbo_ORDER_ITEMS") == found
            assert fault.acted == failed + 1
            assert len(server.faults.log()) == sent + 3, "what stands before it, itself, what comes after"
    finally:
        server.faults.clear()
    assert found.facts.row_level_security is None
    assert found.facts.may_unmask is True
    assert len(found.columns) == 7
