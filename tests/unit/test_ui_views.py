"""What the page says about a table: one word, how urgent it is, and what to do."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.errors import ConfigurationError, LoginFailed, MssqlCdcError
from airflow_provider_mssql_cdc.model.task_error import MESSAGE_CHARACTERS, TaskError
from airflow_provider_mssql_cdc.planning.overview import TableOverview
from airflow_provider_mssql_cdc.ui.configured import FactsSource, configured_facts
from airflow_provider_mssql_cdc.ui.remedies import remedy_of
from airflow_provider_mssql_cdc.ui.views import (
    FailedTask,
    errors_view,
    failed_of,
    is_visible,
    never_loaded,
    sorted_views,
    table_id,
    table_view,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
FAILED = FailedTask(dag_id="follow", run_id="run 1", task_id="changes")


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
    shown = table_view(found, failed=[failed] if failed else [], at=NOW)
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
    found += [table("gap", source="another lost"), table("not loaded", source="a first load failed")]
    found += [table(source="differs", differences=1)]
    order = sorted_views(table_view(one, failed=[], at=NOW) for one in found)
    assert [one["source"] for one in order] == [
        *("another lost", "lost", "differs", "a first load failed"),
        *("purged soon", "loading", "later", "late", "quiet"),
    ]


def test_lag_is_told_from_the_position_to_now() -> None:
    shown = table_view(table(position_time=NOW - timedelta(minutes=2)), failed=[], at=NOW)
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


def every_error(root: type[MssqlCdcError] = MssqlCdcError) -> set[str]:
    below = [one for one in root.__subclasses__() if one.__module__ == root.__module__]
    return {one.__name__ for one in below} | {name for one in below for name in every_error(one)}


def test_the_remedy_of_each_error_is_the_one_that_the_operations_guide_has() -> None:
    text = (Path(__file__).parents[2] / "docs/operations.md").read_text()
    table = text.split("## What each error means")[1].split("## What to press")[0]
    documented = dict(re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", table, flags=re.MULTILINE))
    assert set(documented) == every_error() - {"RetryableError", "PermanentError"}
    for name, said in documented.items():
        remedy, address = remedy_of(name) or ("", "")
        without = re.sub(r" \(\[[^\]]+\]\([^)]+\)\)", "", said)
        assert remedy == re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", without).replace("`", ""), name
        title = address.partition("#")[2].replace("-", " ")
        section = re.split("^### ", table, flags=re.MULTILINE)
        [holding] = [part for part in section if f"\n| `{name}` |" in part]
        assert holding.lower().startswith(title), name
    assert remedy_of("KeyError") is None


def task(task_id: str, error: TaskError | None = None, **known: Any) -> FailedTask:
    return FailedTask(dag_id="follow", run_id="run 1", task_id=task_id, error=error, **known)


@pytest.mark.parametrize(
    ("failed", "belongs"),
    [
        pytest.param(task("changes"), True, id="a task that writes its facts"),
        pytest.param(task("other"), False, id="another task"),
        pytest.param(task("x.any", TaskError("LoginFailed", "m", "o", "/lake/orders")), True, id="names it"),
        pytest.param(task("changes", TaskError("LoginFailed", "m", "b", "/lake/b")), False, id="of another"),
        pytest.param(task("changes", TaskError("LoginFailed", "m")), True, id="several, this one too"),
        pytest.param(task("load.x", TaskError("LoginFailed", "m")), False, id="several tables of a group"),
        pytest.param(task("load.read", operator="MssqlCdcChunkOperator"), True, id="killed in its group"),
        pytest.param(task("load.check", operator="BashOperator"), False, id="foreign task of its group"),
        pytest.param(task("a.load.read", operator="MssqlCdcChunkOperator"), False, id="another group"),
    ],
)
def test_a_failed_task_belongs_to_the_table_that_it_worked_on(failed: FailedTask, belongs: bool) -> None:
    found = table(tasks=(("follow", "changes"), ("follow", "load.plan")))
    assert failed_of(found, [failed]) == [failed] * belongs
    assert (table_view(found, failed=[failed], at=NOW)["state"] == "failed") is belongs


@pytest.mark.parametrize("known", [{"ended": False}, {"is_of_newest_run": False}], ids=str)
def test_a_failure_of_the_past_or_one_with_tries_left_is_listed_and_no_state(known: dict[str, bool]) -> None:
    failed = task("changes", **known)
    assert failed_of(table(), [failed]) == [failed]
    assert table_view(table(), failed=[failed], at=NOW)["state"] == "following"


def test_a_failed_table_says_what_its_error_asks_for() -> None:
    shown = table_view(table(), failed=[task("changes", TaskError("LoginFailed", "m"))], at=NOW)
    assert (shown["error"], shown["remedy"]) == (
        "LoginFailed",
        "Correct the Airflow connection, clear the task.",
    )
    assert "clear it" in table_view(table(), failed=[task("changes")], at=NOW)["remedy"]


def test_rows_that_differ_come_first_and_none_that_differs_changes_nothing() -> None:
    found = [table(source="equal", differences=0), table(source="differs", differences=2)]
    [first, second] = sorted_views(table_view(one, failed=[], at=NOW) for one in found)
    assert (first["source"], first["state"], first["level"]) == ("differs", "silver differs", "bad")
    assert second["state"] == "following"


def test_a_message_is_for_those_who_may_read_the_log() -> None:
    failed = [task("changes", TaskError("LoginFailed", "no user in it"))]
    [shown] = errors_view(failed, may_read_logs={"follow"})
    assert (shown["error"], shown["message"]) == ("LoginFailed", "no user in it")
    [shown] = errors_view(failed, may_read_logs={"load"})
    assert (shown["error"], shown["message"]) == ("LoginFailed", None)
    assert shown["help"].endswith("operations.md#fail-at-once")
    [shown] = errors_view([task("changes")], may_read_logs={"follow"})
    assert (shown["error"], shown["message"], shown["remedy"]) == (None, None, None)


def test_an_error_comes_back_from_its_xcom_and_a_long_message_is_cut() -> None:
    error = TaskError.of(LoginFailed("x" * 10_000), bronze="/lake/orders")
    assert TaskError.from_xcom(error.to_xcom()) == error
    assert (error.error, len(error.message), error.message[-1]) == ("LoginFailed", MESSAGE_CHARACTERS, "…")
    assert TaskError.of(LoginFailed("short")).message == "short"
    stored = error.to_xcom()
    for foreign in (None, "text", {}, {**stored, "error": 1}, {**stored, "facts": 1}, {**stored, "more": 1}):
        assert TaskError.from_xcom(foreign) is None


def test_a_table_that_failed_before_its_first_facts_row_is_not_loaded() -> None:
    error = TaskError("LoginFailed", "m", "dbo_parts (connection erp)", "/lake/parts", "/lake/facts")
    failed = [task("load.plan", error), task("load.plan", error, map_index=1), task("check")]
    assert never_loaded(failed, known={"/lake/parts"}, facts={"/lake/facts"}) == []
    assert never_loaded(failed, known=set(), facts={"/lake/others"}) == []
    [found] = never_loaded(failed, known={"/lake/orders"}, facts={"/lake/facts"})
    shown = table_view(found, failed=failed, at=NOW)
    assert (shown["state"], shown["level"], shown["error"]) == ("not loaded", "bad", "LoginFailed")
    assert shown["source"] == "dbo_parts (connection erp)"
    assert is_visible(found, {"follow"})
    assert not is_visible(found, {"load"})
