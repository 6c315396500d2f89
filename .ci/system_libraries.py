"""Looks for the system libraries that mssql-python's ODBC driver loads; installs them where it may.

The driver comes in a wheel, these three do not. As root on a Debian-like Linux they are installed
by apt-get; elsewhere a line says what to install. Without them pymssql reads, slower.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys

PACKAGES = {
    "libltdl.so.7": "libltdl7",
    "libkrb5.so.3": "libkrb5-3",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
}


def is_there(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def install(packages: list[str]) -> bool:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if subprocess.run(command, check=False, **quiet).returncode == 0:
        return True
    subprocess.run(["apt-get", "update"], check=False, **quiet)
    return subprocess.run(command, check=False, **quiet).returncode == 0


def main() -> None:
    if sys.platform != "linux":
        return
    missing = [package for library, package in PACKAGES.items() if not is_there(library)]
    if not missing:
        return
    names = " ".join(missing)
    if install(missing):
        print(f"Installed for mssql-python's driver: {names}")
    else:
        print(f"mssql-python's driver cannot be loaded without: {names} (apt-get install {names})")


if __name__ == "__main__":
    main()
