"""One session lent to many jobs: it stays open, and what a failed job left of it is never lent again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConnectionBroken
from airflow_provider_mssql_cdc.source.kept import KeptSession
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.unit.source.conftest import settings_for

OWN = Statement("SELECT @@SPID AS spid, @@TRANCOUNT AS open_transactions")


@pytest.fixture
def opens(server: EmbeddedSqlServer, driver: str) -> Callable[[], SourceSession]:
    return lambda: SourceSession(settings_for(server, driver), isolation="snapshot")


@pytest.fixture
def kept(opens: Callable[[], SourceSession]) -> Iterator[KeptSession]:
    with KeptSession(opens) as kept:
        yield kept


def spid(kept: KeptSession) -> int:
    with kept() as session:
        return int(session.row(OWN)["spid"])


def test_jobs_that_follow_each_other_have_one_session(kept: KeptSession) -> None:
    assert spid(kept) == spid(kept) == spid(kept)


def test_a_job_that_failed_ends_it_and_the_next_one_gets_a_new_session(kept: KeptSession) -> None:
    with kept() as before:
        pass
    with pytest.raises(ValueError, match="the job failed"), kept() as session, session.transaction():
        raise ValueError("the job failed")
    assert before.has_ended
    with kept() as session:
        assert session is not before
        assert session.row(OWN)["open_transactions"] == 0


def test_a_connection_that_broke_between_two_jobs_is_replaced_before_the_second(kept: KeptSession) -> None:
    with kept() as session:
        before = session
    before.cancel()
    with kept() as session:
        assert session is not before
        assert session.row(OWN)["open_transactions"] == 0


def test_two_jobs_never_share_it(kept: KeptSession) -> None:
    with kept(), pytest.raises(RuntimeError, match="one job at a time"), kept():
        pass
    assert spid(kept)


def test_after_cancel_nothing_connects(kept: KeptSession) -> None:
    spid(kept)
    kept.cancel()
    with pytest.raises(ConnectionBroken, match="killed"):
        spid(kept)
