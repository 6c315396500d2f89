"""The functions that SQL calls: Python callables under names that all connections of an engine share."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from airflow_provider_mssql_cdc.embedded.engine.storage import Link


@dataclass(frozen=True, slots=True)
class PooledFunction:
    """``bound``: called with the link first. ``aggregate``: the callable is an aggregate class."""

    call: Callable[..., Any]
    deterministic: bool
    bound: bool
    aggregate: bool


class FunctionPool:
    """Names for callables; the same key gives the same name."""

    def __init__(self) -> None:
        self.permanent: set[str] = set()
        self._functions: dict[str, PooledFunction] = {}
        self._names: dict[Hashable, str] = {}
        self._numbers = itertools.count(1)
        self._guard = threading.Lock()

    def name(
        self,
        key: Hashable,
        call: Callable[..., Any],
        *,
        deterministic: bool = True,
        bound: bool = False,
        aggregate: bool = False,
    ) -> str:
        with self._guard:
            name = self._names.get(key)
            if name is None:
                name = f"f{next(self._numbers)}"
                self._names[key] = name
                self._functions[name] = PooledFunction(call, deterministic, bound, aggregate)
            return name

    def add_permanent(self, name: str, call: Callable[..., Any]) -> None:
        """A function under its own name that triggers may call; called with the link first."""
        self._functions[name] = PooledFunction(call, False, True, False)
        self.permanent.add(name)

    def register(self, link: Link, name: str) -> None:
        function = self._functions[name]
        if function.aggregate:
            link.connection.create_aggregate(name, -1, function.call)
            return
        call = function.call

        def guarded(*arguments: Any) -> Any:
            try:
                return call(*arguments)
            except Exception as exc:
                link.error = exc
                raise

        def guarded_bound(*arguments: Any) -> Any:
            try:
                return call(link, *arguments)
            except Exception as exc:
                link.error = exc
                raise

        wrapped = guarded_bound if function.bound else guarded
        link.connection.create_function(name, -1, wrapped, deterministic=function.deterministic)
