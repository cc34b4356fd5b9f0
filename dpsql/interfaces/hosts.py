"""Where a server listens."""

from __future__ import annotations

from ipaddress import ip_address


def is_local(host: str) -> bool:
    """Whether only this machine reaches it.

    >>> is_local("localhost"), is_local("::1"), is_local("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
