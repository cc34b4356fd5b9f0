"""Addresses of providers of keys, which nobody on the way may read or change."""

from __future__ import annotations

from urllib.parse import urlsplit

_LOCAL = ("127.0.0.1", "::1", "localhost")


def is_safe_url(url: str) -> bool:
    """Test whether a URL is https, or http of this machine alone.

    >>> is_safe_url("https://login.example.org"), is_safe_url("http://login.example.org")
    (True, False)
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in _LOCAL))
