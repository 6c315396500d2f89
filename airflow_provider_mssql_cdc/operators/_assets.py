"""Asset events: what follows a table learns what was committed, and when, from the event itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from airflow.sdk import Context


def delta_asset(uri: str) -> Asset:
    """The asset of a Delta table of this package: ``schedule=delta_asset("/lake/silver/orders")``.

    :param uri: path or URI of the table, as the operators are given it.
    """
    return Asset(asset_uri(uri))


def asset_uri(uri: str) -> str:
    """The URI under which a Delta table is an asset; a path is a ``file://`` URI."""
    return f"file://{uri}" if uri.startswith("/") else uri


def with_own_alias(arguments: dict[str, Any], *, table: Any, announced: bool) -> dict[str, Any]:
    """Operator arguments whose outlets begin with an alias of ours, for events of the Delta table.

    A static ``Asset`` outlet gets an event for every success, also when nothing was committed, and none for
    a commit whose task failed afterwards; events of an alias are added by the task itself.

    :param table: path or URI of the Delta table; the alias has its name, templates and all.
    :param announced: the author of the DAG wants these events.
    """
    if not announced:
        return arguments
    given = arguments.get("outlets") or []
    outlets = list(given) if isinstance(given, Iterable) and not isinstance(given, Mapping) else [given]
    return {**arguments, "outlets": [AssetAlias(f"mssql_cdc {table}"), *outlets]}


def announce(
    context: Context, outlets: Iterable[Any], *, table: str, extra: dict[str, Any], changed: bool
) -> None:
    """Put ``extra`` on the events of this task's outlets.

    Airflow emits one event per success for every :class:`~airflow.sdk.Asset` that the author of the DAG
    gave. An :class:`~airflow.sdk.AssetAlias`, ours or another, gets an event on the Delta table's asset when
    this run has committed something.

    :param table: canonical path or URI of the Delta table.
    :param changed: this run has committed to it, in this try or in an earlier one.
    """
    for outlet in outlets:
        if isinstance(outlet, AssetAlias):
            if changed:
                context["outlet_events"][outlet].add(delta_asset(table), extra=extra)
        elif isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(extra)
