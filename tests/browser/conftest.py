"""Chromium, and a running Airflow with tables in every state; for ``make browser``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.world import World, world

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser of the system: Debian's package ``chromium``, or what CHROMIUM names."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "no Chromium: install Debian's package chromium, or name one in CHROMIUM"
    with sync_playwright() as playwright:
        # Without a user namespace, as in a container, Chromium's sandbox does not start; pages are our own.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, from the npm package in AXE's folder; ``make browser`` gets it."""
    return (Path(os.environ["AXE"]) / "axe.min.js").read_text()
