"""The set-up script: as it was reviewed, safe for any name, and enough for a load on the embedded server."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.batches import split_batches
from airflow_provider_mssql_cdc.setup_sql import main, table_of
from airflow_provider_mssql_cdc.source.connection_report import connection_facts
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.setup import Setup, setup_batches, setup_script
from tests.unit.source.conftest import settings_for

GOLDEN = Path(__file__).parent / "golden_setup"
ORDERS = Setup("shop", (("dbo", "orders"), ("sales", "customers")), "loader")
HOSTILE = Setup("it's ]a% shop", (("my schema", "it's [ord%ers]"),), "lo'ad]er", role="cdc 'r]ole")

SCRIPTS = {
    "server": ORDERS,
    "server_with_a_role": replace(ORDERS, role="cdc_reader"),
    "server_windows_login": replace(ORDERS, login="CORP\\airflow"),
    "managed_instance": replace(ORDERS, target="managed-instance"),
    "azure_sql_database": replace(ORDERS, target="azure-sql-database", role="cdc_reader"),
    "second_instance": replace(ORDERS, suffix="_v2"),
    "hostile_names": HOSTILE,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_the_one_that_was_reviewed(name: str) -> None:
    path = GOLDEN / f"{name}.sql"
    text = setup_script(SCRIPTS[name])
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_there_is_no_golden_file_of_a_script_that_is_gone() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sql")} == set(SCRIPTS)


@pytest.mark.parametrize("suffixes", [("",), ("", "_v2")])
@pytest.mark.parametrize(
    "setup",
    [ORDERS, replace(ORDERS, role="cdc_reader"), replace(ORDERS, target="managed-instance"), HOSTILE],
)
def test_after_the_script_the_login_lacks_nothing_and_running_it_again_changes_nothing(
    setup: Setup, suffixes: tuple[str, ...]
) -> None:
    password = "Reader-1 'quoted'"
    with EmbeddedSqlServer(database=setup.database) as server:
        for schema, table in setup.tables:
            if schema != "dbo":
                server.execute(f"CREATE SCHEMA {bracket(schema)}")
            name = f"{bracket(schema)}.{bracket(table)}"
            server.execute(f"CREATE TABLE {name} (id int NOT NULL PRIMARY KEY, note nvarchar(20))")
        for suffix in suffixes:
            script = setup_script(replace(setup, suffix=suffix))
            script = script.replace("<password>", password.replace("'", "''"))
            session = server.session(database="master")
            for batch in split_batches(script) * 2:
                session.rows(batch)
            session.close()
        settings = settings_for(server, "mssql-python", login=setup.login, password=password)
        with SourceSession(settings) as session:
            facts = connection_facts(session)
    made = {
        f"{schema}_{table}{suffix}": (setup.role, True, None if setup.role is None else True)
        for schema, table in setup.tables
        for suffix in suffixes
    }
    assert {
        rights.instance.name: (rights.instance.role_name, rights.may_read_changes, rights.in_gating_role)
        for rights in facts.instances
    } == made
    assert facts.hidden == ()


def bracket(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tables": ()}, "tables must name at least one table"),
        ({"login": ""}, "must be printable and not empty"),
        ({"login": "a\nGO\nDROP DATABASE shop"}, "must be printable"),
        ({"database": "a\u2028b"}, "must be printable"),
        ({"tables": (("dbo", "a\tb"),)}, "must be printable"),
        ({"suffix": "\n"}, "must be printable"),
        ({"target": "azure"}, "target must be one of server, managed-instance, azure-sql-database"),
        ({"tables": (("dbo", "t" * 97),)}, "at most 100 characters"),
        ({"target": "azure-sql-database", "login": "CORP\\a"}, "has no Windows logins"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(ORDERS, **changed)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_name_leaves_its_quotes(name: str) -> None:
    """Every quote in a batch closes: what is left outside of names and literals is T-SQL of ours alone."""
    import re

    words = set("SELECT INSERT DROP".split())
    for batch in setup_batches(SCRIPTS[name]):
        outside = re.sub(r"N'(?:[^']|'')*'|\[(?:[^\]]|\]\])*\]|--[^\n]*", " ", batch)
        assert not set("'[]") & set(outside)
        assert not {"DROP", "INSERT"} & words & set(outside.split())


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("orders", ("dbo", "orders")),
        ("sales.orders", ("sales", "orders")),
        ("[my schema].[a.b]", ("my schema", "a.b")),
        ("sales.[it]]s]", ("sales", "it]s")),
        ("my schema.my table", ("my schema", "my table")),
    ],
)
def test_a_table_is_named_as_in_t_sql(text: str, table: tuple[str, str]) -> None:
    assert table_of(text) == table


@pytest.mark.parametrize("text", ["", ".", "a.", ".b", "a.b.c", "[a", "a]b", "[a]b", "a..b"])
def test_what_names_no_table_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"must be <schema>\.<name>"):
        table_of(text)
    assert main(["--tables", text, "--database", "shop"]) == 2
    assert "must be <schema>.<name>" in capsys.readouterr().err


def test_the_command_prints_the_script_and_imports_nothing_heavy() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "airflow_provider_mssql_cdc.setup_sql"]
    command += ["--tables", "dbo.orders", "sales.customers", "--database", "shop"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == setup_script(ORDERS)
    assert not [name for name in ("pyarrow", "airflow.sdk", "pymssql") if f" {name}\n" in done.stderr]
