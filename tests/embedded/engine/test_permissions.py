"""Logins read what they were granted, and see of the catalog what they may read."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Engine, Session
from airflow_provider_mssql_cdc.embedded.seam import SqlError


@pytest.fixture
def reader(engine: Engine, session: Session) -> Session:
    session.run("CREATE TABLE t (id int PRIMARY KEY, secret int, open_ int); INSERT INTO t VALUES (1, 2, 3)")
    session.run("CREATE TABLE hidden (id int)")
    session.run("CREATE LOGIN reader WITH PASSWORD = 'pw'; CREATE USER reader FOR LOGIN reader")
    return engine.login("reader", "pw", "shop")


def test_nothing_is_readable_or_visible_at_first(reader: Session, error_of) -> None:
    assert error_of(reader, "SELECT * FROM t") == 229
    assert error_of(reader, "SELECT COUNT(*) FROM t") == 229
    assert reader.rows("SELECT name FROM sys.tables") == []
    assert reader.rows("SELECT OBJECT_ID('dbo.t')") == [(None,)]
    assert error_of(reader, "EXEC sp_spaceused 'dbo.t'") == 15009


def test_select_on_a_table_shows_it(session: Session, reader: Session, error_of) -> None:
    session.run("GRANT SELECT ON dbo.t TO reader")
    assert reader.rows("SELECT * FROM t") == [(1, 2, 3)]
    assert reader.rows("SELECT name FROM sys.tables") == [("t",)]
    assert error_of(reader, "UPDATE t SET secret = 1") == 229
    assert error_of(reader, "INSERT INTO t VALUES (2, 2, 2)") == 229
    assert error_of(reader, "CREATE TABLE mine (a int)") == 262
    session.run("REVOKE SELECT ON dbo.t FROM reader")
    assert error_of(reader, "SELECT * FROM t") == 229


def test_select_on_columns_reads_those_columns(session: Session, reader: Session, error_of) -> None:
    session.run("GRANT SELECT ON dbo.t (id, open_) TO reader")
    assert reader.rows("SELECT id, open_ FROM t WHERE id = 1") == [(1, 3)]
    assert reader.rows("SELECT COUNT(*) FROM t") == [(1,)]
    assert error_of(reader, "SELECT * FROM t") == 230
    assert error_of(reader, "SELECT id FROM t WHERE secret = 2") == 230
    assert len(reader.rows("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('dbo.t')")) == 3


def test_a_denied_column_beats_a_granted_table(session: Session, reader: Session, error_of) -> None:
    session.run("GRANT SELECT ON dbo.t TO reader; DENY SELECT ON dbo.t (secret) TO reader")
    assert reader.rows("SELECT id FROM t") == [(1,)]
    assert error_of(reader, "SELECT secret FROM t") == 230
    session.run("DENY SELECT ON OBJECT::dbo.t TO reader")
    assert error_of(reader, "SELECT id FROM t") == 229


def test_roles_carry_grants(session: Session, reader: Session) -> None:
    session.run("CREATE ROLE gate; ALTER ROLE gate ADD MEMBER reader; GRANT SELECT ON dbo.t TO gate")
    assert reader.rows("SELECT id FROM t") == [(1,)]
    assert reader.rows("SELECT IS_ROLEMEMBER('gate'), IS_ROLEMEMBER('db_owner'), IS_ROLEMEMBER('nope')") == [
        (1, 0, None)
    ]


@pytest.mark.parametrize(
    "grant",
    [
        "ALTER ROLE db_datareader ADD MEMBER reader",
        "GRANT SELECT ON SCHEMA::dbo TO reader",
        "GRANT SELECT TO reader",
    ],
)
def test_wide_grants_reach_every_table(session: Session, reader: Session, grant: str) -> None:
    session.run(grant)
    assert reader.rows("SELECT id FROM t") == [(1,)]
    assert reader.rows("SELECT HAS_PERMS_BY_NAME('dbo.t', 'OBJECT', 'SELECT')") == [(1,)]


def test_who_am_i(reader: Session, session: Session) -> None:
    asked = "SELECT SUSER_SNAME(), USER_NAME(), HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE')"
    assert reader.rows(asked) == [("reader", "reader", 0)]
    assert session.rows(asked) == [("sa", "dbo", 1)]


def test_a_login_without_a_user_cannot_enter(
    engine: Engine, session: Session, reader: Session, error_of
) -> None:
    engine.create_database("stock")
    with pytest.raises(SqlError, match="4060"):
        engine.login("reader", "pw", "stock")
    assert error_of(reader, "USE stock") == 916
    assert engine.login("reader", "pw", "master").database == "master"


def test_row_level_security_shows_in_the_catalog(session: Session) -> None:
    session.run(
        "CREATE TABLE t (id int); CREATE SECURITY POLICY dbo.guard ADD FILTER PREDICATE "
        "dbo.f(id) ON dbo.t WITH (STATE = ON)"
    )
    found = session.rows(
        "SELECT p.name, p.is_enabled FROM sys.security_predicates AS s JOIN sys.security_policies AS p "
        "ON p.object_id = s.object_id WHERE s.target_object_id = OBJECT_ID(N'dbo.t')"
    )
    assert found == [("guard", True)]
