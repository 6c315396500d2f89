"""Collation names to the five bytes that tell a driver the code page."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.embedded.seam import COLLATIONS
from airflow_provider_mssql_cdc.embedded.tds import type_info
from airflow_provider_mssql_cdc.embedded.tds.type_info import codec_of, collation

KNOWN = [
    ("SQL_Latin1_General_CP1_CI_AS", "0904d00034", "cp1252"),
    ("SQL_Latin1_General_CP1_CS_AS", "0904c00033", "cp1252"),
    ("Latin1_General_CI_AS", "0904d00000", "cp1252"),
    ("latin1_general_ci_as", "0904d00000", "cp1252"),
    ("Latin1_General_CS_AS", "0904c00000", "cp1252"),
    ("Latin1_General_CI_AI", "0904f00000", "cp1252"),
    ("Latin1_General_CS_AS_KS_WS", "0904000000", "cp1252"),
    ("Latin1_General_BIN", "0904000100", "cp1252"),
    ("Latin1_General_BIN2", "0904000200", "cp1252"),
    ("Latin1_General_100_CI_AS", "0904d02000", "cp1252"),
    ("Latin1_General_100_CI_AS_SC_UTF8", "0904d02400", "utf-8"),
    ("Latin1_General_100_BIN2_UTF8", "0904002600", "utf-8"),
    ("Cyrillic_General_CI_AS", "1904d00000", "cp1251"),
    ("Greek_CI_AS", "0804d00000", "cp1253"),
    ("Chinese_PRC_CI_AS", "0408d00000", "cp936"),
    ("Japanese_CI_AS", "1104d00000", "cp932"),
    ("Japanese_XJIS_140_CI_AS", "1104d03000", "cp932"),
    ("SQL_Latin1_General_CP850_BIN2", "0904000228", "cp850"),
    (None, "0904d00034", "cp1252"),
]


@pytest.mark.parametrize(("name", "wire", "codec"), KNOWN)
def test_a_name_has_its_bytes_and_code_page(name: str | None, wire: str, codec: str) -> None:
    found = collation(name)
    assert (found.wire.hex(), found.codec) == (wire, codec)


@pytest.mark.parametrize("language", sorted(COLLATIONS))
def test_a_client_that_sends_the_bytes_back_means_the_same_code_page(language: str) -> None:
    found = collation(f"{language}_100_CI_AS")
    assert codec_of(found.wire) == found.codec
    assert "ascii".encode(found.codec) == b"ascii"


@pytest.mark.parametrize("language", sorted(type_info._SQL))
def test_the_sort_id_tells_the_code_page(language: str) -> None:
    found = collation(f"{language}_CI_AS")
    assert codec_of(found.wire) == found.codec


@pytest.mark.parametrize("name", ["Klingon_CI_AS", "SQL_Nothing_CP1_CI_AS", "CI_AS"])
def test_an_unknown_language_is_refused(name: str) -> None:
    with pytest.raises(LookupError, match="not in the embedded server's table"):
        collation(name)
