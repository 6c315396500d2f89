"""Masked, encrypted, filtered, computed, sparse, alias-typed: refused, allowed by name, or ordinary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError, PreflightFailed, ValueDoesNotFit
from tests.support.delta_rows import delta_rows
from tests.support.load import Load

DRIVERS = ("mssql-python", "pymssql")
both_drivers = pytest.mark.parametrize("driver", DRIVERS)


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="hr") as running:
        yield running


def people(server: EmbeddedSqlServer, columns: str, *, inserts: str = "", unmask: bool = False) -> None:
    """``dbo.people`` with these columns, and a login ``loader`` with the least rights."""
    server.execute(f"CREATE TABLE dbo.people (id int NOT NULL PRIMARY KEY, {columns})")
    for statement in filter(None, inserts.split(";")):
        server.execute(statement)
    server.enable_cdc("dbo.people")
    grants = ["SELECT ON dbo.people", "SELECT ON cdc.dbo_people_CT", *(["UNMASK"] if unmask else [])]
    server.add_login("loader", grants=grants)


def load(server: EmbeddedSqlServer, folder: Path, **arguments: Any) -> Load:
    return Load(server, folder, instance="dbo_people", login="loader", **arguments)


def problems_of(one: Load) -> tuple[str, ...]:
    with pytest.raises(PreflightFailed) as caught:
        one.plan()
    assert not Path(one.table.bronze).exists()
    return caught.value.problems


MASKED = "name nvarchar(40) MASKED WITH (FUNCTION = 'default()') NULL"


@both_drivers
def test_a_masked_column_is_refused_until_it_is_allowed_or_unmasked(
    server: EmbeddedSqlServer, tmp_path: Path, driver: str
) -> None:
    people(server, MASKED, inserts="INSERT INTO dbo.people VALUES (1, N'Ada')")
    (problem,) = problems_of(load(server, tmp_path / "a", driver=driver))
    assert "[name] (nvarchar(40)) is masked" in problem
    assert 'allow=("name",)' in problem
    (other,) = problems_of(load(server, tmp_path / "b", driver=driver, allow=("nme",)))[:1]
    assert other == "allow: the table has no column [nme]"
    allowed = load(server, tmp_path / "c", driver=driver, allow=("NAME",))
    assert allowed.all().rows == 1
    server.execute("UPDATE dbo.people SET name = N'Grace'")
    assert allowed.changes().counts.updates == 1


@both_drivers
def test_unmask_makes_a_masked_column_ordinary(
    server: EmbeddedSqlServer, tmp_path: Path, driver: str
) -> None:
    people(server, MASKED, inserts="INSERT INTO dbo.people VALUES (1, N'Ada')", unmask=True)
    one = load(server, tmp_path, driver=driver)
    assert one.all().rows == 1
    assert delta_rows(one.table.bronze, columns="name") == [{"name": "Ada"}]


def test_a_key_that_is_masked_is_no_key_even_when_it_is_allowed(
    server: EmbeddedSqlServer, tmp_path: Path
) -> None:
    people(server, MASKED)
    problems = problems_of(load(server, tmp_path, key=("name",), allow=("name",)))
    assert any("must not be masked for this login" in problem for problem in problems)


@both_drivers
def test_a_table_under_row_level_security_is_refused_unless_it_is_allowed(
    server: EmbeddedSqlServer, tmp_path: Path, driver: str
) -> None:
    people(server, "region int NULL", inserts="INSERT INTO dbo.people VALUES (1, 7)")
    server.execute("CREATE SECURITY POLICY dbo.by_region ADD FILTER PREDICATE dbo.fn(region) ON dbo.people")
    seeing = Load(server, tmp_path / "sa", instance="dbo_people", driver=driver)
    (problem,) = problems_of(seeing)
    assert "row-level security" in problem
    assert 'allow=("row_level_security",)' in problem
    allowed = Load(
        server, tmp_path / "b", instance="dbo_people", driver=driver, allow=("row_level_security",)
    )
    assert allowed.all().rows == 1
    blind = load(server, tmp_path / "blind", driver=driver)
    assert blind.all().rows == 1, "a login that cannot see policies is told so in a note"
    (notes,) = delta_rows(blind.table.facts, "event = 'snapshot_plan'", columns="detail")
    assert "has no VIEW DEFINITION" in notes["detail"]


@both_drivers
def test_always_encrypted_is_refused_and_loads_as_ciphertext_when_allowed(
    server: EmbeddedSqlServer, tmp_path: Path, driver: str
) -> None:
    people(
        server,
        "ssn varbinary(200) ENCRYPTED WITH (COLUMN_ENCRYPTION_KEY = k, ENCRYPTION_TYPE = DETERMINISTIC, "
        "ALGORITHM = 'AEAD_AES_256_CBC_HMAC_SHA_256') NULL",
        inserts="INSERT INTO dbo.people VALUES (1, 0x01A0)",
    )
    (problem,) = problems_of(load(server, tmp_path / "a", driver=driver))
    assert "Always Encrypted" in problem
    allowed = load(server, tmp_path / "b", driver=driver, allow=("ssn",))
    assert allowed.all().rows == 1
    assert delta_rows(allowed.table.bronze, columns="ssn") == [{"ssn": b"\x01\xa0"}]


@both_drivers
def test_computed_sparse_and_alias_typed_columns(
    server: EmbeddedSqlServer, tmp_path: Path, driver: str
) -> None:
    server.execute("CREATE TYPE dbo.phone FROM varchar(15) NOT NULL")
    server.execute("CREATE TYPE dbo.amount FROM money NULL")
    people(
        server,
        "a int SPARSE NULL, tel dbo.phone, pay dbo.amount, twice AS id * 2, "
        "label AS CAST(id AS varchar(9)) PERSISTED",
        inserts="INSERT INTO dbo.people (id, a, tel, pay) VALUES (1, NULL, '1', 2.5);"
        "INSERT INTO dbo.people (id, a, tel, pay) VALUES (2, 7, '', NULL)",
    )
    one = load(server, tmp_path, driver=driver)
    one.all()
    names = [field.name for field in DeltaTable(one.table.bronze).schema().fields]
    assert not {"twice", "label"} & set(names)
    rows = delta_rows(one.table.bronze, columns="id, a, tel, CAST(pay AS string) AS pay")
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "a": None, "tel": "1", "pay": "2.5000"},
        {"id": 2, "a": 7, "tel": "", "pay": None},
    ]
    (plan,) = delta_rows(one.table.facts, "event = 'snapshot_plan'", columns="detail")
    assert "[twice]" in plan["detail"]
    assert "[label]" in plan["detail"]
    server.execute("UPDATE dbo.people SET tel = '2' WHERE id = 1")
    assert one.changes().counts.updates == 1


@both_drivers
def test_a_cast_that_the_server_does_not_have_is_told_apart_from_a_value(
    server: EmbeddedSqlServer, tmp_path: Path, driver: str
) -> None:
    people(server, "born date NULL", inserts="INSERT INTO dbo.people VALUES (1, '2001-02-03')")
    one = load(server, tmp_path, driver=driver, casts={"born": "int"})
    (planned,) = one.plan()
    with pytest.raises(ConfigurationError, match="no such conversion: name another type in casts"):
        one.read(planned)


@both_drivers
def test_a_value_that_a_cast_would_cut_or_cannot_convert_names_column_table_and_range(
    server: EmbeddedSqlServer, tmp_path: Path, driver: str
) -> None:
    people(server, "note nvarchar(200) NULL, v sql_variant NULL, n varchar(20) NULL")
    server.executemany(
        "INSERT INTO dbo.people (id, note, v, n) VALUES (?, ?, ?, ?)",
        [(n, "short", "abc", str(n)) for n in range(30)],
    )
    casts = {"note": "varchar(10)", "v": "nvarchar(5)", "n": "int"}
    one = load(server, tmp_path, driver=driver, casts=casts)
    planned = one.plan(rows_per_range=10)
    assert len(planned) == 3
    for column, value in (("note", "eleven char"), ("v", "secret"), ("n", "12x")):
        server.execute(f"UPDATE dbo.people SET {column} = ? WHERE id = 17", value)
        one.read(planned[0])
        with pytest.raises(ValueDoesNotFit) as caught:
            one.read(planned[1])
        text = str(caught.value)
        assert "dbo.people, range 2 of 3" in text
        assert f"[{column}] as {casts[column]}" in text
        assert value not in text
        fine = {"note": "short", "v": "abc", "n": "17"}[column]
        server.execute(f"UPDATE dbo.people SET {column} = ? WHERE id = 17", fine)
    assert DeltaTable(one.table.bronze).version() == 0
    assert one.complete([one.read(item) for item in planned]).rows == 30
    assert delta_rows(one.table.bronze, "id = 17", columns="note, v, n") == [
        {"note": "short", "v": "abc", "n": 17}
    ]


def test_a_column_set_is_refused(server: EmbeddedSqlServer, tmp_path: Path) -> None:
    people(server, "a int SPARSE NULL, b int SPARSE NULL, every xml COLUMN_SET FOR ALL_SPARSE_COLUMNS")
    problems = problems_of(load(server, tmp_path))
    assert [problem for problem in problems if "column set" in problem]
    assert len(problems) == 1


@both_drivers
def test_what_only_a_cast_can_read_is_refused_and_read_by_a_cast(
    server: EmbeddedSqlServer, tmp_path: Path, driver: str
) -> None:
    people(server, "v sql_variant NULL, h hierarchyid NULL, g geography NULL, m geometry NULL, ok xml NULL")
    problems = problems_of(load(server, tmp_path / "a", driver=driver))
    assert [problem.split(" ")[1] for problem in problems] == ["[v]", "[h]", "[g]", "[m]"]
    assert all("casts={" in problem for problem in problems)
    server.execute("INSERT INTO dbo.people (id, v) VALUES (1, 'twelve'), (2, NULL)")
    casts = {"v": "varchar(6)", "h": "varchar(100)", "g": "varchar(max)", "m": "varbinary(max)"}
    one = load(server, tmp_path / "b", driver=driver, casts=casts)
    assert one.all().rows == 2
    rows = delta_rows(one.table.bronze, columns="id, v")
    assert sorted(rows, key=lambda row: row["id"]) == [{"id": 1, "v": "twelve"}, {"id": 2, "v": None}]
    server.execute("INSERT INTO dbo.people (id, v) VALUES (3, CAST(N'twelve' AS nvarchar(20)))")
    assert one.changes().counts.inserts == 1
