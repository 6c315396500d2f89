"""Grouping chunks into waves, once, and choosing the waves of a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from airflow_provider_mssql_cdc.errors import IncompletePlan
from airflow_provider_mssql_cdc.model.lsn import Lsn

MOST_CHUNKS_PER_WAVE = 16
"""What a failed wave reads again at most, unless the user says otherwise: docs/sizing.md."""

_SHOWN = 10


def chunks_per_wave(chunks: int, *, max_waves: int, asked: int | None = None) -> int:
    """How many chunks each wave of a new plan has.

    As asked for; else as many as make the plan fit into one run of ``max_waves``, and no more than
    :data:`MOST_CHUNKS_PER_WAVE`: a larger plan takes several runs.
    """
    if chunks < 1 or max_waves < 1 or (asked is not None and asked < 1):
        raise ValueError("chunks, max_waves and chunks_per_wave are at least 1")
    if asked is not None:
        return min(asked, chunks)
    return min(-(-chunks // max_waves), MOST_CHUNKS_PER_WAVE)


def missing_waves(waves: int, landed: Collection[int]) -> list[int]:
    """The waves of a plan that bronze does not hold."""
    return [wave for wave in range(waves) if wave not in landed]


def refuse_missing(missing: Sequence[int], *, snapshot: Lsn, waves: int) -> None:
    """Fail when waves of a plan are not in bronze.

    :raises IncompletePlan: naming them, counted from one, as the labels of the mapped tasks do.
    """
    if missing:
        listed = ", ".join(str(wave + 1) for wave in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise IncompletePlan(
            f"snapshot {snapshot}: {len(missing)} of {waves} wave(s) are not in bronze: {listed}{more}. "
            "Those that are there stay; trigger a new run, which reads the missing ones alone, or clear them"
        )
