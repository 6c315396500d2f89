"""Where a Delta table lives: one canonical text per place, and the options to get there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.table import MssqlCdcTable

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_UNUSABLE_IN_PATHS = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]\\^|\x00-\x1f]")
_ONE_SPELLING = {"s3a": "s3", "adl": "az", "azure": "az"}
_OBJECT_STORES = frozenset({"s3", "gs", "az", "abfs", "abfss"})
_UNSAFE_RENAME = "allow_unsafe_rename"
_TRUE = frozenset({"1", "true", "on", "yes", "y", "t"})


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A Delta table's place; two spellings of one place are one value.

    :param uri: an absolute path, or ``s3://``, ``gs://``, ``az://``, ``abfs://`` or ``abfss://``.
    :param storage_options: as delta-rs takes them; in no repr, no comparison and no message.
    :raises ConfigurationError: a place that delta-rs cannot write to, or not safely from many tasks.
    """

    uri: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", canonical_uri(self.uri))
        if self.storage_options is not None:
            object.__setattr__(self, "storage_options", MappingProxyType(dict(self.storage_options)))
        _refuse_unsafe_rename(self)

    @classmethod
    def bronze_of(cls, table: MssqlCdcTable) -> TableLocation:
        return cls(table.bronze, table.storage_options)

    @classmethod
    def facts_of(cls, table: MssqlCdcTable) -> TableLocation:
        return cls(table.facts, table.storage_options)

    @classmethod
    def plans_of(cls, table: MssqlCdcTable) -> TableLocation:
        """Beside bronze, which many may read: bounds are values of the source."""
        return cls(f"{canonical_uri(table.bronze)}_plans", table.storage_options)

    @property
    def local_path(self) -> Path | None:
        """The folder, where the table is on a file system."""
        return Path(self.uri) if self.uri.startswith("/") else None

    def options(self) -> dict[str, str] | None:
        """A plain dict, which is what delta-rs insists on."""
        return None if self.storage_options is None else dict(self.storage_options)

    def __reduce__(self) -> tuple[type[TableLocation], tuple[str, dict[str, str] | None]]:
        """A mapping proxy does not pickle; the value is rebuilt from plain ones."""
        return (type(self), (self.uri, self.options()))

    def __str__(self) -> str:
        return self.uri


def canonical_uri(text: str) -> str:
    """The one spelling of a place: absolute path, or URI without doubled or trailing slashes.

    ``lake/orders``, ``/lake/orders/`` and ``file:///lake/orders`` are one place. Symbolic links are
    not followed: what they point to may differ between workers.
    """
    if text != text.strip() or not text:
        raise ConfigurationError(f"a table's path has no blanks at its ends, got {text!r}")
    if not _URI.match(text):
        return _canonical_path(text)
    parts = urlsplit(text)
    scheme = _ONE_SPELLING.get(parts.scheme, parts.scheme)
    if scheme == "file" and parts.netloc in ("", "localhost"):
        return _canonical_path(unquote(parts.path))
    if scheme not in _OBJECT_STORES or not parts.netloc:
        raise ConfigurationError(
            f"{scheme}://{parts.hostname or ''} is no place for a Delta table here: "
            "use a path, s3://bucket/path, gs://, az:// or abfss://"
        )
    if parts.query or parts.fragment or parts.password is not None or (scheme == "s3" and parts.username):
        raise ConfigurationError(
            f"the URI of a Delta table at {scheme}://{parts.hostname} carries credentials, a query or a "
            "fragment; credentials belong in storage_options"
        )
    segments = [segment for segment in parts.path.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise ConfigurationError(f"'..' has no meaning in an object store: {text!r}")
    return "/".join([f"{scheme}://{parts.netloc}", *segments])


def _canonical_path(text: str) -> str:
    """delta-rs decodes %41 to A in some of its steps only, and panics at brackets (tried, 1.6.6)."""
    path = "/" + os.path.abspath(text).lstrip("/")  # noqa: PTH100 - Path.absolute() keeps '..'
    if found := _UNUSABLE_IN_PATHS.search(path):
        raise ConfigurationError(f"delta-rs cannot write to a path that holds {found[0]!r}: {path!r}")
    return path


def _refuse_unsafe_rename(location: TableLocation) -> None:
    """Ranges are staged and committed in parallel: with unsafe renames the last commit file wins."""
    settings: dict[str, str] = dict(location.storage_options or {})
    if location.uri.startswith("s3://"):
        settings.setdefault("AWS_S3_ALLOW_UNSAFE_RENAME", os.environ.get("AWS_S3_ALLOW_UNSAFE_RENAME", ""))
    for key, value in settings.items():
        if key.lower().endswith(_UNSAFE_RENAME) and str(value).strip().lower() in _TRUE:
            raise ConfigurationError(
                f"{key} is on for {location.uri}: two commits at once could overwrite each other and lose "
                "rows. Take it out; S3 has conditional put, which delta-rs uses by default"
            )
