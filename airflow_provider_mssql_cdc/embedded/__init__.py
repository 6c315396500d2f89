"""An embedded SQL Server stand-in with change data capture, for tests, demos and the laptop.

Never imported by the rest of the package. It needs the extra ``embedded``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.listener import Replica
    from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer

__all__ = ["EmbeddedSqlServer", "Replica"]

_MODULES = {"EmbeddedSqlServer": "server", "Replica": "listener"}
_OF_THE_EXTRA = ("numpy", "cryptography")


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: the pytest plugin imports this package in every run.

    :raises ModuleNotFoundError: names the extra where what it brings is missing.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for needed in _OF_THE_EXTRA:
        try:
            import_module(needed)
        except ModuleNotFoundError as exc:
            raise ModuleNotFoundError(
                f"{name} needs {needed}, which the extra brings: "
                "pip install 'airflow-provider-mssql-cdc[embedded]'",
                name=needed,
            ) from exc
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
