"""Canonical URIs of Delta tables: one spelling for each path. Pure: nothing is looked up."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from airflow_provider_mssql_cdc.errors import ConfigurationError

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_UNUSABLE_IN_PATHS = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]\\^|\x00-\x1f]")
_ONE_SPELLING = {"s3a": "s3", "adl": "az", "azure": "az"}
_OBJECT_STORES = frozenset({"s3", "gs", "az", "abfs", "abfss"})


def canonical_uri(text: str) -> str:
    """Return the canonical spelling: an absolute path, or a URI without doubled or trailing slashes.

    ``/lake/orders/`` and ``file:///lake/orders`` are equal.

    :raises ConfigurationError: a relative path, or a URI that cannot hold a Delta table.
    """
    # Symbolic links are not followed: their targets may differ between workers, like relative paths.
    if text != text.strip() or not text:
        raise ConfigurationError(f"must not be empty or begin or end with a blank, got {text!r}")
    if not _URI.match(text):
        if not text.startswith("/"):
            raise ConfigurationError(
                f"must be an absolute path or a URI such as s3://bucket/path, got {text!r}; a relative path "
                "names another folder on every worker"
            )
        return _canonical_path(text)
    parts = urlsplit(text)
    scheme = _ONE_SPELLING.get(parts.scheme, parts.scheme)
    if scheme == "file" and parts.netloc in ("", "localhost"):
        return _canonical_path(unquote(parts.path))
    if scheme not in _OBJECT_STORES or not parts.netloc:
        raise ConfigurationError(
            f"{scheme}://{parts.hostname or ''} cannot hold a Delta table of this package: "
            "use a path, s3://bucket/path, gs://, az:// or abfss://"
        )
    if parts.query or parts.fragment or parts.password is not None or (scheme == "s3" and parts.username):
        raise ConfigurationError(
            f"a URI at {scheme}://{parts.hostname} must not hold credentials, a query or a "
            "fragment; pass credentials in storage_options"
        )
    segments = [segment for segment in parts.path.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise ConfigurationError(f"must not hold '..', which object stores do not resolve, got {text!r}")
    return "/".join([f"{scheme}://{parts.netloc}", *segments])


def _canonical_path(text: str) -> str:
    """Return an absolute path without ``.``, ``..`` and doubled slashes."""
    # delta-rs decodes %41 to A in only some of its steps, and panics at brackets (tried with 1.6.6).
    path = "/" + os.path.abspath(text).lstrip("/")  # noqa: PTH100 - Path.absolute() keeps '..'
    if found := _UNUSABLE_IN_PATHS.search(path):
        raise ConfigurationError(f"must not hold {found[0]!r}, which delta-rs cannot write to, got {path!r}")
    return path


def plans_uri(bronze: str) -> str:
    """Return the URI of the table that stores the plans of a bronze table's chunked snapshots."""
    return f"{canonical_uri(bronze)}_plans"


def uri_problems(places: Mapping[str, str]) -> list[str]:
    """List the problems of one source table's paths: an unusable path, or one path for two tables.

    :param places: path or URI by the name of the argument; ``bronze`` implies its plans table.
    """
    problems, taken = [], dict[str, str]()
    for name, text in places.items():
        try:
            found = {name: canonical_uri(text)}
        except ConfigurationError as exc:
            problems.append(f"{name}: {exc}")
            continue
        if name == "bronze":
            found["the plans table of bronze"] = plans_uri(text)
        for what, uri in found.items():
            if uri in taken:
                problems.append(
                    f"{taken[uri]} and {what} are both {uri}; each Delta table must have its own path"
                )
            taken.setdefault(uri, what)
    return problems
