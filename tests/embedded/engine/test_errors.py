"""Errors carry SQL Server's numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Engine, Session
from airflow_provider_mssql_cdc.embedded.seam import SqlError

CASES = [
    ("SELECT * FROM nowhere", 208),
    ("SELECT * FROM nowhere.t", 208),
    ("SELECT nope FROM t", 207),
    ("SELECT x.id FROM t", 4104),
    ("SELECT id FROM t a CROSS JOIN t b", 209),
    ("SELECT FROM t", 156),
    ("SELECT @@TEXTSIZE AS textsize", 156),
    ("SELECT 1 AS rowcount", 156),
    ("SELECT 1 AS [rowcount], t.plan FROM t", 156),
    ("SELECT 1 FROM t AS file", 156),
    ("SELECT 1 FROM dbo.offsets", 156),
    ("CREATE TABLE u (statistics int)", 156),
    ("CREATE SCHEMA sales; SELECT 1", 156),
    ("SELECT 1; CREATE SCHEMA sales", 111),
    ("SELECT 'abc", 105),
    ("SELECT @nope", 137),
    ("SELECT nope(1)", 195),
    ("SELECT dbo.nope(1)", 4121),
    ("EXEC nope", 2812),
    ("USE nowhere", 911),
    ("SELECT CAST('abc' AS int)", 245),
    ("SELECT CAST('99999999999' AS int)", 248),
    ("SELECT CAST('abc' AS bigint)", 8114),
    ("SELECT CAST('abc' AS decimal(5,2))", 8114),
    ("SELECT CAST('2020-02-30' AS datetime2)", 241),
    ("SELECT CAST('2020-01-01T00:00:00.1234' AS datetime)", 241),
    ("SELECT CAST('1700-01-01' AS datetime)", 242),
    ("SELECT CAST(CAST('0001-01-01' AS date) AS datetime)", 242),
    ("SELECT CAST('abc' AS uniqueidentifier)", 8169),
    ("SELECT CAST(256 AS tinyint)", 220),
    ("SELECT CAST(40000 AS smallint)", 220),
    ("SELECT CAST(1000 AS decimal(3,0))", 8115),
    ("SELECT CAST(2147483648 AS int)", 8115),
    ("SELECT CAST(9223372036854775807 AS bigint) + 1", 8115),
    ("SELECT CAST('9223372036854775808' AS bigint)", 8115),
    ("SELECT 1 / 0", 8134),
    ("SELECT CONVERT(binary(2), 'zz', 1)", 8114),
    ("SELECT CAST(CAST('2020-01-01' AS date) AS int)", 529),
    ("SELECT MAX(b) FROM t", 8117),
    ("SELECT 1 WHERE 1", 4145),
    ("INSERT INTO t (id) VALUES (1)", 2627),
    ("INSERT INTO t (id, u) VALUES (3, 5)", 2601),
    ("INSERT INTO t (id) VALUES (NULL)", 515),
    ("UPDATE t SET id = NULL", 515),
    ("INSERT INTO t (id, s) VALUES (3, 'abcdef')", 2628),
    ("INSERT INTO t (id, y) VALUES (3, 256)", 220),
    ("INSERT INTO t (id, y) VALUES (3, 'x')", 245),
    ("INSERT INTO t (id, d) VALUES (3, 1000)", 8115),
    ("INSERT INTO t (id, c) VALUES (3, 1)", 271),
    ("INSERT INTO t (id, rv) VALUES (3, 0x01)", 273),
    ("INSERT INTO t (id, s) VALUES (3)", 109),
    ("INSERT INTO t VALUES (3)", 109),
    ("CREATE TABLE t (a int)", 2714),
    ("CREATE TABLE w (a nope)", 243),
    ("CREATE TABLE w (a int, A int)", 2705),
    ("CREATE TABLE nope.w (a int)", 2760),
    ("CREATE TABLE w (a varchar(max) PRIMARY KEY)", 1919),
    ("CREATE TABLE w (a varchar(5) COLLATE Nonsense_CI_AS)", 448),
    ("DROP TABLE nowhere", 3701),
    ("ALTER TABLE nowhere ADD x int", 4902),
    ("CREATE DATABASE shop", 1801),
    ("GRANT SELECT ON t TO nobody", 15151),
    ("EXEC sp_spaceused N'nowhere'", 15009),
]


@pytest.mark.parametrize(("sql", "number"), CASES)
def test_a_statement_that_is_wrong_says_so_by_number(
    session: Session, error_of, sql: str, number: int
) -> None:
    session.run(
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, s varchar(5), b bit, y tinyint, d decimal(3,0), u int, "
        "c AS id + 1, rv rowversion)"
    )
    session.run("CREATE UNIQUE INDEX by_u ON t (u)")
    session.run("INSERT INTO t (id, u) VALUES (1, 5), (2, 6)")
    assert error_of(session, sql) == number


def test_an_error_of_a_late_row_comes_while_rows_are_read(session: Session) -> None:
    session.run("CREATE TABLE t (id int PRIMARY KEY, s varchar(9))")
    session.executemany("INSERT INTO t VALUES (?, '1')", [(i,) for i in range(5000)])
    session.run("UPDATE t SET s = 'x' WHERE id = 4999")
    with pytest.raises(SqlError, match="245"):
        session.rows("SELECT CAST(s AS int) FROM t")
    assert session.rows("SELECT COUNT(*) FROM t") == [(5000,)]


@pytest.mark.parametrize(
    ("user", "password", "database", "number"),
    [("sa", "wrong", "shop", 18456), ("nobody", "x", "shop", 18456), ("sa", "secret", "nowhere", 4060)],
)
def test_a_login_that_fails_says_why(
    engine: Engine, user: str, password: str, database: str, number: int
) -> None:
    with pytest.raises(SqlError) as caught:
        engine.login(user, password, database)
    assert caught.value.number == number


def test_only_one_null_fits_a_unique_index(session: Session, error_of) -> None:
    session.run("CREATE TABLE t (a int NULL UNIQUE, b int)")
    session.run("INSERT INTO t VALUES (NULL, 1), (1, 2)")
    assert error_of(session, "INSERT INTO t VALUES (NULL, 3)") == 2627


def test_a_filtered_unique_index_ignores_other_rows(session: Session, error_of) -> None:
    session.run("CREATE TABLE t (a int NULL, b int); CREATE UNIQUE INDEX u ON t (b) WHERE a IS NOT NULL")
    session.run("INSERT INTO t VALUES (NULL, 1), (NULL, 1), (1, 1)")
    assert error_of(session, "INSERT INTO t VALUES (2, 1)") == 2601


NOT_KNOWN = [
    "SELECT LAG(id) OVER (ORDER BY id) FROM t",
    "SELECT ROW_NUMBER() OVER (PARTITION BY id ORDER BY id) FROM t",
    "SELECT AVG(id) FROM t",
    "SELECT SUM(d) FROM t",
    "SELECT SOUNDEX(s) FROM t",
    "SELECT id FROM t WHERE s LIKE 'a%'",
    "SELECT TRY_CAST(s AS int) FROM t",
    "SELECT id FROM t GROUP BY id HAVING COUNT(*) > 1",
    "SELECT id FROM t ORDER BY id OFFSET 1 ROWS",
    "SELECT id FROM t EXCEPT SELECT 2 ORDER BY 1",
    "SELECT id FROM t INTERSECT SELECT 2",
    "WITH c AS (SELECT id FROM t) SELECT id FROM c",
    "SELECT id FROM t WITH (NOLOCK)",
    "SELECT id FROM t OPTION (MAXDOP 1)",
    "SELECT id INTO copy FROM t",
    "SELECT id FROM f(1) AS x",
    "SELECT a.id FROM t AS a RIGHT JOIN t AS b ON a.id = b.id",
    "SELECT TOP (@p1) id FROM t",
    "SELECT ~id FROM t",
    "SELECT id | 1 FROM t",
    "SELECT CAST(GETDATE() AS varchar(30))",
    "SELECT CONVERT(varchar(30), GETDATE(), 103)",
    "SELECT CAST(CAST('2020-01-01' AS datetime) + 1 AS date)",
    "SELECT CAST('Jan 1 2020' AS date)",
    "SELECT CAST('1/2/2020' AS date)",
    "SELECT CAST('2020-01-01 1:00PM' AS datetime)",
    "SELECT CAST(CAST(1 AS money) AS varchar(20))",
    "SELECT CAST(CAST(1 AS float) AS varchar(20))",
    "SELECT CAST(1 AS datetime)",
    "SELECT DATEADD(month, 1, GETDATE())",
    "SELECT DATEPART(hour, GETDATE())",
    "SELECT DATEDIFF(year, GETDATE(), GETDATE())",
    "INSERT INTO t DEFAULT VALUES",
    "INSERT INTO t (id) EXEC ('SELECT 1')",
    "UPDATE t SET d += 1",
    "UPDATE x SET d = 1 FROM t AS x",
    "DELETE TOP (1) FROM t",
    "TRUNCATE TABLE t",
    "DROP INDEX by_u ON t",
    "ALTER TABLE t DROP CONSTRAINT u",
    "ALTER TABLE t ENABLE CHANGE_TRACKING",
    "ALTER DATABASE shop COLLATE Greek_CI_AS",
    "ALTER DATABASE shop SET RECOVERY SIMPLE",
    "CREATE TABLE w (a int CHECK (a > 0))",
    "CREATE TABLE w (a int REFERENCES t (id))",
    "SET IDENTITY_INSERT t ON",
    "PRINT 'x'",
    "WAITFOR DELAY '00:00:01'",
    "THROW 51000, 'x', 1",
    "EXEC ('SELECT 1')",
    "SELECT rows FROM sys.partitions",
    "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES",
]


@pytest.mark.parametrize("sql", NOT_KNOWN)
def test_what_the_server_does_not_know_is_refused(session: Session, error_of, sql: str) -> None:
    session.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, s varchar(5), d decimal(3,0), u int)")
    session.run("CREATE UNIQUE INDEX by_u ON t (u)")
    session.run("INSERT INTO t VALUES (1, '1', 1, 5)")
    assert error_of(session, sql, 1)
    assert session.rows("SELECT * FROM t") == [(1, "1", Decimal(1), 5)]
