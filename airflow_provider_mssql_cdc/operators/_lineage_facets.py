"""OpenLineage's own classes; imported only where its provider asks for lineage."""

from __future__ import annotations

from typing import Any

import attr
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import RunFacet, output_statistics_output_dataset


@attr.define
class MssqlCdcRunFacet(RunFacet):
    """What a task did to each table.

    :param tables: ``{"event", "source", "target", "snapshot", "position", "position_time", "rows"}`` each.
    """

    tables: list[dict[str, Any]] = attr.field(factory=list)


def dataset(name: tuple[str, str]) -> InputDataset:
    return InputDataset(namespace=name[0], name=name[1])


def output(name: tuple[str, str], *, rows: int | None, size: int | None, files: int | None) -> OutputDataset:
    facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=rows, size=size, fileCount=files
    )
    return OutputDataset(namespace=name[0], name=name[1], outputFacets={"outputStatistics": facet})


def run_facet(tables: list[dict[str, Any]]) -> MssqlCdcRunFacet:
    return MssqlCdcRunFacet(tables=tables)
