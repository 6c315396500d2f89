"""What the page says about a table: one word, how urgent it is, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.planning.overview import TableOverview
from airflow_provider_mssql_cdc.ui.configured import FactsSource, configured_facts
from airflow_provider_mssql_cdc.ui.views import FailedTask, is_visible, sorted_views, table_id, table_view

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
FAILED = FailedTask("follow", "run 1", "changes", -1)


def table(state: Any = "following", **known: Any) -> TableOverview:
    given = {"source": "erp shop.dbo.orders", "bronze": "/lake/orders", "tasks": (("follow", "changes"),)}
    return TableOverview(state=state, **{**given, **known})


@pytest.mark.parametrize(
    ("found", "failed", "state", "level"),
    [
        (table(), None, "following", "good"),
        (table(headroom_hours=40.0), None, "following", "good"),
        (table(headroom_hours=2.5), None, "little headroom", "warn"),
        (table(headroom_hours=0.0), None, "little headroom", "warn"),
        (table("loaded", headroom_hours=2.5), None, "loaded", "good"),
        (table("loading"), None, "loading", "busy"),
        (table("gap"), None, "gap", "bad"),
        (table("gap"), FAILED, "gap", "bad"),
        (table(), FAILED, "failed", "bad"),
        (table("loading"), FAILED, "failed", "bad"),
    ],
)
def test_a_state_is_a_word_and_a_level(
    found: TableOverview, failed: FailedTask | None, state: str, level: str
) -> None:
    shown = table_view(found, failed=failed, at=NOW)
    assert (shown["state"], shown["level"]) == (state, level)
    if level in ("bad", "warn"):
        assert shown["remedy"]


def test_bad_tables_come_before_warnings_and_among_equals_the_least_headroom() -> None:
    found = [
        table(source="quiet"),
        table(source="late", headroom_hours=20.0),
        table(source="later", headroom_hours=13.0),
        table(source="purged soon", headroom_hours=1.0),
        table("loading", source="loading"),
        table("gap", source="lost"),
    ]
    order = sorted_views(table_view(one, failed=None, at=NOW) for one in found)
    assert [one["source"] for one in order] == ["lost", "purged soon", "loading", "later", "late", "quiet"]


def test_lag_is_told_from_the_position_to_now() -> None:
    shown = table_view(table(position_time=NOW - timedelta(minutes=2)), failed=None, at=NOW)
    assert shown["lag_seconds"] == 120


def test_a_table_is_visible_through_any_of_the_dags_that_write_it() -> None:
    two = table(tasks=(("load", "complete"), ("follow", "changes")))
    assert [is_visible(two, dags) for dags in ({"load"}, {"follow"}, {"other"}, set())] == [
        True,
        True,
        False,
        False,
    ]
    assert not is_visible(table(tasks=()), {"load"})


def test_two_bronze_tables_have_two_addresses() -> None:
    assert table_id(table()) != table_id(table(bronze="/lake/orders2"))


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("", ()),
        ("  ", ()),
        ("/lake/facts", (FactsSource("/lake/facts"),)),
        ('["/a", "/b"]', (FactsSource("/a"), FactsSource("/b"))),
        ('[{"path": "s3://a", "delta_conn_id": "lake"}]', (FactsSource("s3://a", "lake"),)),
        ('[{"path": "s3://a"}]', (FactsSource("s3://a"),)),
    ],
)
def test_the_option_is_a_path_or_a_list(text: str, sources: tuple[FactsSource, ...]) -> None:
    assert configured_facts(text) == sources


@pytest.mark.parametrize("text", ["[", "[1]", '[""]', '[{"delta_conn_id": "a"}]', '[{"path": "/a", "x": 1}]'])
def test_an_option_that_cannot_be_used_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\[mssql_cdc\] facts"):
        configured_facts(text)
