"""Where a Delta table is, and its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri, plans_uri
from airflow_provider_mssql_cdc.table import MssqlCdcTable

_UNSAFE_RENAME = "allow_unsafe_rename"
_TRUE = frozenset({"1", "true", "on", "yes", "y", "t"})


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The location of a Delta table; two spellings of one location are one value.

    :param uri: an absolute path, or ``s3://``, ``gs://``, ``az://``, ``abfs://`` or ``abfss://``.
    :param storage_options: as delta-rs takes them; in no repr, no comparison and no message.
    :raises ConfigurationError: delta-rs cannot write there, or not safely from many tasks.
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
        return cls(plans_uri(table.bronze), table.storage_options)

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


class TableStorage:
    """A table's folder, on a file system or in an object store, by the table's own credentials.

    Names are relative to the table's root. Errors are those of the file system (``OSError``).
    """

    def __init__(self, location: TableLocation) -> None:
        self._folder = location.local_path
        if self._folder is not None:
            self._files: pafs.FileSystem = pafs.SubTreeFileSystem(str(self._folder), pafs.LocalFileSystem())
        else:
            self._files = pafs.PyFileSystem(DeltaStorageHandler(location.uri, location.options()))

    def create(self, name: str) -> Any:
        """A binary sink for a file that must not exist; on an object store the name alone sees to that."""
        if self._folder is not None:
            return (self._folder / name).open("xb")
        return self._files.open_output_stream(name)

    def finish(self, sink: Any) -> None:
        """Close a sink so that its bytes outlive a crash of this machine.

        An object store answers when it holds the object. A file system does not: without fsync a power
        cut can leave a file of the right length with blocks of zeros in front of a good footer.
        """
        if self._folder is not None:
            sink.flush()
            os.fsync(sink.fileno())
        sink.close()
        if self._folder is not None:
            _sync_folder(self._folder)

    def size(self, name: str) -> int | None:
        """Bytes, None when there is no such file."""
        info = self._files.get_file_info(name)
        return int(info.size) if info.type == pafs.FileType.File else None

    def footer(self, name: str) -> pq.FileMetaData:
        """The Parquet footer; ``pyarrow.ArrowInvalid`` when the file holds none."""
        with self._files.open_input_file(name) as file:
            return pq.read_metadata(file)

    def open(self, name: str) -> pa.NativeFile:
        """A file to read from."""
        return self._files.open_input_file(name)

    def names(self, prefix: str) -> list[str]:
        """Files at the table's root whose names begin with ``prefix``."""
        selected = self._files.get_file_info(pafs.FileSelector("", recursive=False))
        names = [info.path.rpartition("/")[2] for info in selected if info.type == pafs.FileType.File]
        return sorted(name for name in names if name.startswith(prefix))

    def discard(self, name: str) -> bool:
        """Remove a file; False when it was gone already, even if another process removed it just now."""
        if self.size(name) is None:
            return False
        try:
            self._files.delete_file(name)
        except FileNotFoundError:
            return False
        return True


def _sync_folder(folder: Path) -> None:
    """Make the folder's entry of a new file durable too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


UNREADABLE = (OSError, pa.ArrowInvalid)
"""What reading a file that is cut, damaged or gone raises."""
