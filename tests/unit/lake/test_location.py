from __future__ import annotations

import pickle

import pytest

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("/lake/orders", "/lake/orders"),
        ("/lake/orders/", "/lake/orders"),
        ("/lake//bronze/../orders", "/lake/orders"),
        ("//lake/orders", "/lake/orders"),
        ("file:///lake/orders/", "/lake/orders"),
        ("file://localhost/lake/orders", "/lake/orders"),
        ("file:/lake/my%20orders", "/lake/my orders"),
        ("/lake/Zürich #1", "/lake/Zürich #1"),
        ("s3://bucket/orders/", "s3://bucket/orders"),
        ("S3://bucket/orders", "s3://bucket/orders"),
        ("s3a://bucket//bronze/./orders", "s3://bucket/bronze/orders"),
        ("s3://bucket/", "s3://bucket"),
        ("gs://bucket/orders", "gs://bucket/orders"),
        ("azure://container/orders", "az://container/orders"),
        ("abfss://raw@lake.dfs.core.windows.net/orders/", "abfss://raw@lake.dfs.core.windows.net/orders"),
    ],
)
def test_every_spelling_of_a_place_becomes_one_text(spelling: str, canonical: str) -> None:
    assert canonical_uri(spelling) == canonical
    assert canonical_uri(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    ["orders", "lake/orders", "./lake", "../lake", "~/lake", "lake", "file.delta", "C:\\lake", "s3:orders"],
)
def test_a_relative_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="must be an absolute path or a URI"):
        TableLocation(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "with a blank"),
        (" /lake", "with a blank"),
        ("memory:///x", "cannot hold a Delta table"),
        ("s3:///orders", "cannot hold a Delta table"),
        ("dbfs:/lake", "cannot hold a Delta table"),
        ("https://host/lake", "cannot hold a Delta table"),
        ("s3://bucket/../other", "object stores do not resolve"),
        ("s3://bucket/orders?versionId=1", "storage_options"),
        ("/lake/a%20b", "delta-rs cannot write to"),
        ("/lake/[orders]", "delta-rs cannot write to"),
        ("/lake/dbo\\orders", "delta-rs cannot write to"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        TableLocation(text)


def test_credentials_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as refused:
        TableLocation("s3://AKIA123:s3cr3t@bucket/orders")
    assert "s3cr3t" not in str(refused.value)
    assert "AKIA123" not in str(refused.value)


def test_storage_options_are_shown_nowhere_and_survive_pickling() -> None:
    location = TableLocation("s3://bucket/orders", {"AWS_SECRET_ACCESS_KEY": "s3cr3t"})
    assert "s3cr3t" not in f"{location} {location!r}"
    again = pickle.loads(pickle.dumps(location))
    assert again == location
    assert again.options() == {"AWS_SECRET_ACCESS_KEY": "s3cr3t"}


@pytest.mark.parametrize("key", ["AWS_S3_ALLOW_UNSAFE_RENAME", "aws_s3_allow_unsafe_rename"])
@pytest.mark.parametrize("value", ["true", "TRUE", "1", "yes", "on", " true "])
def test_unsafe_rename_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match="conditional put"):
        TableLocation("s3://bucket/orders", {key: value})


def test_unsafe_rename_is_refused_when_the_environment_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "true")
    TableLocation("/lake/orders")
    with pytest.raises(ConfigurationError, match="AWS_S3_ALLOW_UNSAFE_RENAME"):
        TableLocation("s3://bucket/orders")


@pytest.mark.parametrize("value", ["false", "0", "no", ""])
def test_unsafe_rename_that_is_off_is_no_trouble(value: str) -> None:
    TableLocation("s3://bucket/orders", {"AWS_S3_ALLOW_UNSAFE_RENAME": value})
