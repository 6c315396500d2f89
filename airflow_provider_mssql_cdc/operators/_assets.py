"""Asset events of a finished snapshot: what follows learns its LSN and version from the event itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from airflow.sdk import Context


def announce(
    context: Context, outlets: Iterable[Any], *, bronze: str, extra: dict[str, Any], first: bool
) -> None:
    """Put ``extra`` on the events of this task's outlets.

    Airflow emits one event per success for every :class:`~airflow.sdk.Asset`, so a task that is cleared
    emits it again, with the same extra. An :class:`~airflow.sdk.AssetAlias` gets its event, on the asset
    of the bronze table, once per completion.

    :param bronze: canonical path or URI of the bronze table.
    :param first: nobody has told of this completion before.
    """
    for outlet in outlets:
        if isinstance(outlet, AssetAlias):
            if first:
                context["outlet_events"][outlet].add(Asset(asset_uri(bronze)), extra=extra)
        elif isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(extra)


def asset_uri(bronze: str) -> str:
    """The URI under which a bronze table is an asset; a path is a ``file://`` URI."""
    return f"file://{bronze}" if bronze.startswith("/") else bronze
