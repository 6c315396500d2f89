"""The files beside a Delta log: created once, read back, listed, removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler

from airflow_provider_mssql_cdc.lake.location import TableLocation


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
        """Remove a file; False when it was gone already, by somebody else's hand perhaps just now."""
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
