"""Addresses of servers and clients."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address


def is_local(host: str) -> bool:
    """Test whether an address can be reached only from this machine.

    >>> is_local("localhost"), is_local("::1"), is_local("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def place_of(address: str) -> str:
    """Return the unit in which addresses are counted: for IPv6 the /64 network, as it has many.

    >>> place_of("10.0.0.1"), place_of("2001:db8:1:2:3::4")
    ('10.0.0.1', '2001:db8:1:2::')
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(IPv6Address(int(parsed) >> 64 << 64))
    return address


_PORTS = {"http": 80, "https": 443}


def own_hosts(scheme: str, address: str, port: int, names: Iterable[str] = ()) -> frozenset[str]:
    """Return the values of the Host header that mean a server at this address, in lower case.

    They are its address, `localhost` if it is local, and its `names`, each with the port. Without
    the port they mean the server only at the default port of the scheme.

    >>> sorted(own_hosts("http", "::1", 80))
    ['[::1]', '[::1]:80', 'localhost', 'localhost:80']
    """
    hosts = {f"[{address}]" if ":" in address else address, *names}
    hosts |= {"localhost"} if is_local(address) else set()
    ports = [f":{port}", *([""] if port == _PORTS[scheme] else [])]
    return frozenset(f"{host.lower()}{written}" for host in hosts for written in ports)
