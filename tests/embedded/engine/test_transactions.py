"""Isolation, the one writer, waiting, cancelling."""

from __future__ import annotations

import threading
import time

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Engine, Session
from airflow_provider_mssql_cdc.embedded.seam import ResultSet, SqlError


@pytest.fixture
def table(session: Session) -> None:
    session.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v int)")
    session.run("INSERT INTO t VALUES (1, 10), (2, 20)")


@pytest.mark.usefixtures("table")
class TestReadCommitted:
    def test_others_see_committed_rows_only_and_the_writer_its_own(
        self, session: Session, other: Session
    ) -> None:
        session.run("BEGIN TRAN")
        session.run("UPDATE t SET v = 11 WHERE id = 1")
        assert session.rows("SELECT v FROM t WHERE id = 1") == [(11,)]
        assert other.rows("SELECT v FROM t WHERE id = 1") == [(10,)]
        session.run("COMMIT")
        assert other.rows("SELECT v FROM t WHERE id = 1") == [(11,)]

    def test_each_statement_of_a_transaction_sees_the_last_commit(
        self, session: Session, other: Session
    ) -> None:
        session.begin()
        assert session.rows("SELECT COUNT(*) FROM t") == [(2,)]
        other.run("INSERT INTO t VALUES (3, 30)")
        assert session.rows("SELECT COUNT(*) FROM t") == [(3,)]
        session.commit()

    def test_rollback_takes_rows_and_tables_back(self, session: Session, error_of) -> None:
        session.run("BEGIN TRAN; DELETE FROM t; CREATE TABLE u (a int); ROLLBACK")
        assert session.rows("SELECT COUNT(*) FROM t") == [(2,)]
        assert error_of(session, "SELECT * FROM u") == 208

    def test_a_begun_transaction_holds_no_lock(self, session: Session, other: Session) -> None:
        session.begin()
        session.rows("SELECT * FROM t")
        other.run("SET LOCK_TIMEOUT 0; UPDATE t SET v = 0")
        assert session.rows("SELECT SUM(v) FROM t") == [(0,)]

    def test_a_failed_statement_leaves_the_transaction_open(self, session: Session, error_of) -> None:
        session.run("BEGIN TRAN; INSERT INTO t VALUES (3, 30)")
        assert error_of(session, "INSERT INTO t VALUES (4, 40), (1, 0)") == 2627
        assert session.rows("SELECT @@TRANCOUNT") == [(1,)]
        session.run("COMMIT")
        assert session.rows("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)]

    def test_a_long_read_neither_blocks_writers_nor_sees_them(self, session: Session, other: Session) -> None:
        session.executemany("INSERT INTO t VALUES (?, 1)", [(i,) for i in range(10, 30_000)])
        outcomes = session.execute("SELECT v FROM t")
        result = next(outcomes)
        assert isinstance(result, ResultSet)
        count = len(next(result.batches))
        other.run("SET LOCK_TIMEOUT 0; UPDATE t SET v = 2; DELETE FROM t WHERE id > 100")
        values = [v for batch in result.batches for (v,) in batch]
        assert count + len(values) == 29_992
        assert 2 not in values


@pytest.mark.usefixtures("table")
class TestSnapshot:
    def test_it_is_refused_until_the_database_allows_it(self, session: Session, error_of) -> None:
        session.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
        assert error_of(session, "SELECT * FROM t") == 3952
        session.run("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
        assert len(session.rows("SELECT * FROM t")) == 2

    def test_it_sees_what_was_committed_before_its_first_read(self, session: Session, other: Session) -> None:
        session.run("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
        session.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN")
        session.rows("SELECT 1")
        other.run("INSERT INTO t VALUES (3, 30)")
        assert session.rows("SELECT COUNT(*) FROM t") == [(3,)]
        other.run("INSERT INTO t VALUES (4, 40)")
        assert session.rows("SELECT COUNT(*) FROM t") == [(3,)]
        session.run("COMMIT")
        assert session.rows("SELECT COUNT(*) FROM t") == [(4,)]

    def test_writing_what_another_has_changed_is_a_conflict(
        self, session: Session, other: Session, error_of
    ) -> None:
        session.run("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
        session.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT * FROM t")
        other.run("UPDATE t SET v = 0 WHERE id = 1")
        assert error_of(session, "UPDATE t SET v = 1 WHERE id = 1") == 3960
        assert session.rows("SELECT @@TRANCOUNT") == [(0,)]
        assert session.rows("SELECT v FROM t WHERE id = 1") == [(0,)]

    def test_it_may_write_and_read_its_own_rows(self, session: Session, other: Session) -> None:
        session.run("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
        session.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT * FROM t")
        session.run("INSERT INTO t VALUES (3, 30)")
        assert session.rows("SELECT COUNT(*) FROM t") == [(3,)]
        session.run("COMMIT")
        assert other.rows("SELECT COUNT(*) FROM t") == [(3,)]

    def test_the_setting_outlives_the_transaction_and_a_reset_ends_it(
        self, session: Session, error_of
    ) -> None:
        session.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
        assert error_of(session, "SELECT * FROM t") == 3952
        session.reset()
        assert len(session.rows("SELECT * FROM t")) == 2


@pytest.mark.usefixtures("table")
class TestWaiting:
    def test_a_second_writer_gives_up_after_its_lock_timeout(
        self, session: Session, other: Session, error_of
    ) -> None:
        session.run("BEGIN TRAN; UPDATE t SET v = 0")
        started = time.monotonic()
        assert error_of(other, "SET LOCK_TIMEOUT 100; UPDATE t SET v = 1") == 1222
        assert 0.09 < time.monotonic() - started < 2

    def test_a_second_writer_waits_for_the_first(self, session: Session, other: Session) -> None:
        session.run("BEGIN TRAN; UPDATE t SET v = 100 WHERE id = 1")
        waiting = threading.Thread(target=other.run, args=("UPDATE t SET v = v + 1 WHERE id = 1",))
        waiting.start()
        time.sleep(0.1)
        assert waiting.is_alive()
        session.run("COMMIT")
        waiting.join(5)
        assert session.rows("SELECT v FROM t WHERE id = 1") == [(101,)]

    def test_writers_in_other_databases_do_not_wait(self, engine: Engine, session: Session) -> None:
        engine.create_database("stock")
        stock = engine.login("sa", "secret", "stock")
        session.run("BEGIN TRAN; UPDATE t SET v = 0")
        stock.run("SET LOCK_TIMEOUT 0; CREATE TABLE s (a int); INSERT INTO s VALUES (1)")

    @pytest.mark.parametrize(
        "sql",
        [
            "WAITFOR DELAY '00:01:00'",
            (
                "SELECT COUNT(*) FROM n a CROSS JOIN n b CROSS JOIN n c CROSS JOIN n d CROSS JOIN n "
                "e WHERE a.a + b.a + c.a + d.a + e.a = -1"
            ),
            "UPDATE t SET v = 1",
        ],
    )
    def test_cancel_from_another_thread_ends_what_runs(
        self, session: Session, other: Session, sql: str
    ) -> None:
        session.run("CREATE TABLE n (a int)")
        session.executemany("INSERT INTO n VALUES (?)", [(i,) for i in range(100)])
        session.run("BEGIN TRAN; UPDATE t SET v = 0")
        threading.Timer(0.2, other.cancel).start()
        started = time.monotonic()
        with pytest.raises(SqlError):
            other.rows(sql)
        assert time.monotonic() - started < 5
        session.run("COMMIT")
        assert other.rows("SELECT COUNT(*) FROM t") == [(2,)]

    def test_one_sessions_query_does_not_block_anothers(self, session: Session, other: Session) -> None:
        session.run("CREATE TABLE n (a int)")
        session.executemany("INSERT INTO n VALUES (?)", [(i,) for i in range(100)])
        slow = (
            "SELECT COUNT(*) FROM n a CROSS JOIN n b CROSS JOIN n c CROSS JOIN n d WHERE a.a "
            "+ b.a + c.a + d.a = -1"
        )

        def run() -> None:
            with pytest.raises(SqlError):
                session.rows(slow)

        running = threading.Thread(target=run)
        running.start()
        time.sleep(0.1)
        started = time.monotonic()
        assert other.rows("SELECT COUNT(*) FROM t") == [(2,)]
        assert time.monotonic() - started < 1
        session.cancel()
        running.join(10)
        assert not running.is_alive()


def test_commit_and_rollback_without_begin_are_errors_in_sql_but_not_for_drivers(
    session: Session, error_of
) -> None:
    assert error_of(session, "COMMIT") == 3902
    assert error_of(session, "ROLLBACK") == 3903
    session.commit()
    session.rollback()


def test_transactions_nest_by_count(session: Session) -> None:
    session.run("CREATE TABLE t (a int); BEGIN TRAN; BEGIN TRAN; INSERT INTO t VALUES (1); COMMIT")
    assert session.rows("SELECT @@TRANCOUNT") == [(1,)]
    session.run("ROLLBACK")
    assert session.rows("SELECT COUNT(*) FROM t") == [(0,)]


def test_catalog_views_survive_a_rollback(session: Session) -> None:
    session.run("CREATE TABLE t (a int); BEGIN TRAN; INSERT INTO t VALUES (1); CREATE TABLE u (a int)")
    assert session.rows("SELECT name FROM sys.tables ORDER BY name") == [("t",), ("u",)]
    session.run("ROLLBACK")
    assert session.rows("SELECT name FROM sys.tables") == [("t",)]
    assert len(session.rows("SELECT name FROM sys.columns")) == 1


def test_a_result_that_is_left_unread_does_not_keep_its_old_view(session: Session, other: Session) -> None:
    session.run("CREATE TABLE t (a int)")
    session.executemany("INSERT INTO t VALUES (?)", [(i,) for i in range(5000)])
    kept = session.execute("SELECT a FROM t")
    result = next(kept)
    assert isinstance(result, ResultSet)
    next(result.batches)
    other.run("DELETE FROM t")
    assert session.rows("SELECT COUNT(*) FROM t") == [(0,)]
    kept = session.execute("SELECT a FROM t")
    session.close()
    assert other.rows("SELECT COUNT(*) FROM t") == [(0,)]


def test_many_threads_read_write_and_define_at_once(engine: Engine, session: Session) -> None:
    session.run("CREATE TABLE t (id int IDENTITY PRIMARY KEY, who int, v varchar(20))")
    failures: list[BaseException] = []

    def work(who: int) -> None:
        try:
            with engine.login("sa", "secret", "shop") as mine:
                for step in range(15):
                    mine.run(f"INSERT INTO t (who, v) VALUES ({who}, 'x{step}')")
                    mine.run(f"BEGIN TRAN; UPDATE t SET v = 'y' WHERE who = {who}; COMMIT")
                    assert mine.rows(f"SELECT COUNT(*) FROM t WHERE who = {who} AND v = 'Y'") == [(step + 1,)]
                    mine.rows("SELECT name FROM sys.tables; SELECT * FROM t ORDER BY v, id")
                    if step % 5 == 0:
                        mine.run(f"CREATE TABLE w{who}_{step} (a varchar(5) COLLATE Greek_CS_AS PRIMARY KEY)")
        except BaseException as exc:
            failures.append(exc)
            raise

    threads = [threading.Thread(target=work, args=(who,)) for who in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert session.rows("SELECT COUNT(*), COUNT(DISTINCT id) FROM t") == [(90, 90)]
    assert session.rows("SELECT COUNT(*) FROM sys.tables") == [(19,)]
