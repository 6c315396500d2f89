"""Where a Delta table lives, and the options to get there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.place import canonical_uri, plans_beside
from airflow_provider_mssql_cdc.table import MssqlCdcTable

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
        return cls(plans_beside(table.bronze), table.storage_options)

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
