"""Which casts keep keys apart: a table of declared type, cast, and whether silver may be keyed by it."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.model.source_table import SourceFacts, SqlType
from airflow_provider_mssql_cdc.planning.columns import cast_problems, code_page_problems, is_one_to_one
from airflow_provider_mssql_cdc.planning.types import parse_type, plan_columns
from tests.support.tables import CASELESS, column, sql_type

KEPT = """
int bigint | int varchar(11) | int nvarchar(11) | int char(20) | int decimal(10,0) | int decimal(12,2)
int float | smallint real | tinyint smallint | bigint varchar(20) | bigint decimal(19,0) | bigint varbinary(8)
bigint int | bit tinyint | int money | decimal(10,2) decimal(12,2) | decimal(10,2) decimal(12,4)
decimal(10,2) varchar(12) | decimal(9,0) bigint | decimal(15,0) float | decimal(10,2) money
money decimal(19,4) | money varchar(21) | smallmoney money | real float | float varchar(24) | real varchar(24)
varchar(50) varchar(50) | varchar(50) varchar(80) | varchar(50) nvarchar(50) | char(10) varchar(10)
varchar(10) char(10) | nvarchar(50) nvarchar(50) | nchar(5) nvarchar(10) | nvarchar(50) nvarchar(max)
binary(8) varbinary(8) | binary(8) binary(16) | varbinary(8) varbinary(16) | varbinary(8) varchar(18)
binary(4) varchar(10) | uniqueidentifier varchar(36) | uniqueidentifier char(36)
uniqueidentifier binary(16) | rowversion bigint | rowversion binary(8) | rowversion varchar(18)
date datetime2(0) | date datetime | date varchar(10) | date smalldatetime | date datetimeoffset(0)
datetime datetime2(3) | datetime datetime2(7) | datetime varchar(23) | smalldatetime datetime
smalldatetime datetime2(0) | datetime2(0) datetime2(6) | datetime2(6) datetime2(6) | datetime2(2) datetime
datetime2(6) datetime2(7) | datetime2(7) varchar(27) | datetime2(3) datetimeoffset(3)
datetimeoffset(3) datetimeoffset(6) | datetimeoffset(7) varchar(34) | time(3) time(7) | time(7) varchar(16)
hierarchyid nvarchar(4000) | hierarchyid varbinary(892) | clr varbinary(max)
"""
REFUSED = """
decimal(10,2) decimal(10,0) | decimal(10,2) decimal(12,1) | decimal(10,2) int | decimal(10,2) float
decimal(16,0) float | decimal(7,0) real | bigint float | bigint real | int real | int bit | int binary(2)
int varchar(10) | bigint varchar(11) | float int | float real | float decimal(38,10) | float bigint
real decimal(38,10) | float varchar(10) | money int | money decimal(19,2) | money float | money varchar(10)
smallmoney decimal(10,3) | varchar(50) varchar(10) | char(10) varchar(5) | nvarchar(50) varchar(50)
nvarchar(50) varchar(max) | nchar(5) char(5) | nvarchar(50) nvarchar(49) | varchar(50) int
varchar(50) datetime2(3) | varchar(50) varbinary(50) | varchar(36) uniqueidentifier
nvarchar(20) decimal(18,0) | binary(8) varbinary(4) | varbinary(8) binary(8) | binary(8) bigint
uniqueidentifier varchar(35) | uniqueidentifier binary(8) | rowversion int
rowversion binary(4) | datetime2(6) datetime2(0)
datetime2(6) datetime2(5) | datetime2(7) datetime2(7) | datetime2(7) datetimeoffset(7) | datetime2(3) datetime
datetime2(6) smalldatetime | datetime2(6) date | datetime2(6) time(6) | datetime2(6) varchar(19)
datetime datetime2(2) | datetime smalldatetime | datetime date | smalldatetime date
datetimeoffset(3) datetime2(3) | datetimeoffset(3) datetimeoffset(0) | datetimeoffset(7) datetimeoffset(7)
datetimeoffset(3) date | datetimeoffset(3) datetime | time(7) time(6) | time(3) datetime | time(3) varchar(8)
sql_variant varchar(8000) | sql_variant nvarchar(4000) | sql_variant int | sql_variant varbinary(8000)
hierarchyid nvarchar(100) | hierarchyid varbinary(100) | clr varbinary(100) | geography varchar(max)
"""


def pairs(text: str) -> list[list[str]]:
    return [pair.split() for line in text.strip().splitlines() for pair in line.split("|")]


@pytest.mark.parametrize(("declared", "cast"), pairs(KEPT))
def test_a_cast_that_keeps_every_key_apart_is_taken(declared: str, cast: str) -> None:
    assert is_one_to_one(sql_type(declared), parse_type(cast))


@pytest.mark.parametrize(("declared", "cast"), pairs(REFUSED))
def test_a_cast_that_may_turn_two_keys_into_one_is_refused(declared: str, cast: str) -> None:
    assert not is_one_to_one(sql_type(declared), parse_type(cast))


def test_the_column_and_a_type_that_would_do_are_named() -> None:
    code, other = column("code", "decimal(10,2)"), column("other", "decimal(10,2)")
    planned = plan_columns([code, other], {"CODE": "decimal(10,0)", "other": "int"}).columns
    (problem,) = cast_problems((code,), planned)
    assert "column [code] (decimal(10,2))" in problem
    assert "decimal(10,0)" in problem
    assert "varchar(12)" in problem


PAGES = {CASELESS: 1252, "Cyrillic_General_CI_AS": 1251, "Latin1_General_BIN2": 1252, "Made_Up": None}


@pytest.mark.parametrize(
    ("declared", "collation", "allow", "refused"),
    [
        ("varchar", CASELESS, (), False),
        ("varchar", "Latin1_General_BIN2", (), False),
        ("varchar", "Cyrillic_General_CI_AS", (), True),
        ("char", "Cyrillic_General_CI_AS", (), True),
        ("varchar", "Made_Up", (), True),
        ("nvarchar", "Cyrillic_General_CI_AS", (), False),
        ("varchar", "Cyrillic_General_CI_AS", ("other",), True),
        ("varchar", "Cyrillic_General_CI_AS", ("CODE",), False),
    ],
)
def test_a_key_in_another_code_page_is_refused_unless_it_is_allowed(
    declared: str, collation: str, allow: tuple[str, ...], refused: bool
) -> None:
    from airflow_provider_mssql_cdc.model.source_table import Column

    code = Column("code", 1, SqlType(declared, 20, collation=collation), nullable=False)
    facts = SourceFacts("dbo_t", "etl", "erp", database_collation=CASELESS, code_pages=PAGES)
    problems = code_page_problems((code,), facts, allow=allow)
    assert bool(problems) == refused
    assert all("[code]" in problem and 'allow=("code",)' in problem for problem in problems)
