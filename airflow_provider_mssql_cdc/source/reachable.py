"""Whether anything listens where a connection points: one name lookup and one TCP connect, each in its words.

Asked before a driver connects. mssql-python goes on trying a port that refuses until its login timeout is
over (tried, 1.16), and both drivers call an unknown name, a refusal and a lost packet alike.
"""

from __future__ import annotations

import contextlib
import errno
import socket

from airflow_provider_mssql_cdc.errors import ServerUnreachable
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings

LONGEST_SECONDS = 15
"""A TCP connect takes one round trip: a login timeout above this is for the login."""

_RETRIED = (
    "The task tries again, as its retries say: a server that restarts or fails over comes back, a wrong "
    "host or port does not"
)


def refuse_unreachable(settings: ConnectionSettings) -> None:
    """Raise ServerUnreachable where no TCP connection can be made; say nothing when one can.

    With an instance name there is no port to ask yet, and with MultiSubnetFailover the driver tries
    addresses at once that this would try one by one: there only the name is looked up.
    """
    try:
        _look_up(settings)
        if settings.port is not None and not settings.multi_subnet_failover:
            _connect(settings, settings.port)
    except OSError as exc:
        raise ServerUnreachable(
            f"{settings.label}: connecting: {reason_of(exc, settings)}. {_RETRIED}"
        ) from None


def reason_of(exc: OSError, settings: ConnectionSettings) -> str:
    """What a failed lookup or connect says of the server, in one sentence."""
    if isinstance(exc, socket.gaierror):
        return f"{settings.host} is not known: no address was found for this name. Check the host for a typo"
    if isinstance(exc, ConnectionRefusedError):
        return (
            f"nothing listens on {settings.server} (refused). Check the port, whether TCP/IP is enabled and "
            "whether the server runs"
        )
    if exc.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL):
        return f"there is no route to {settings.server}. Check the address, the VPN and the network"
    if isinstance(exc, TimeoutError):
        return (
            f"{settings.server} did not answer within {_seconds(settings)} s: a firewall that drops packets, "
            "or an address without a machine"
        )
    return f"{settings.server} cannot be reached ({exc.strerror or type(exc).__name__})"


def _look_up(settings: ConnectionSettings) -> None:
    try:
        socket.getaddrinfo(settings.host, settings.port or 0, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label that is empty or above 63 characters
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from None


def _connect(settings: ConnectionSettings, port: int) -> None:
    with contextlib.closing(socket.create_connection((settings.host, port), timeout=_seconds(settings))):
        pass


def _seconds(settings: ConnectionSettings) -> int:
    return min(settings.login_timeout_seconds or LONGEST_SECONDS, LONGEST_SECONDS)
