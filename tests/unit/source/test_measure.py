"""Ranges tile the table by either driver; a key that a user names is counted."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import UnsupportedKey
from airflow_provider_mssql_cdc.planning.keys import choose_keys
from airflow_provider_mssql_cdc.source.catalog import describe
from airflow_provider_mssql_cdc.source.measure import count_rows, cut_ranges
from airflow_provider_mssql_cdc.source.session import SourceSession


@pytest.fixture(scope="module", autouse=True)
def tables(server: EmbeddedSqlServer) -> None:
    server.execute("CREATE TABLE dbo.sparse (id bigint NOT NULL PRIMARY KEY, city varchar(20) NOT NULL)")
    server.executemany(
        "INSERT INTO dbo.sparse VALUES (?, ?)", [(i * i * 1000, f"city {i % 7}") for i in range(1000)]
    )
    server.enable_cdc("dbo.sparse")


def test_ranges_tile_the_table(session: SourceSession) -> None:
    found = describe(session, capture_instance="dbo_sparse")
    keys = choose_keys(found)
    assert keys.split_by is not None
    plan = cut_ranges(session, found.table, keys, rows_per_range=90, max_ranges=256)
    counts = [count_rows(session, found.table, keys.split_by, key_range) for key_range in plan.ranges]
    assert sum(counts) == 1000
    assert max(counts) <= 135


def test_a_key_that_is_the_user_s_word_alone_is_counted(session: SourceSession) -> None:
    found = describe(session, capture_instance="dbo_sparse")
    keys = choose_keys(found, key=("city",))
    assert keys.key_to_check
    with pytest.raises(UnsupportedKey, match=r"dbo\.sparse: key \(city\) has 7 values for 1,000 rows"):
        cut_ranges(session, found.table, keys, rows_per_range=100, max_ranges=10)
