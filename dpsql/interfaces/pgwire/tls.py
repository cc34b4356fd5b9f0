"""TLS: the owner's certificate, or a self-signed one for trials."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from dpsql.model.errors import MissingExtra, Unreachable

_DAYS = 30


def context(certificate: str, key: str, client_ca: str | None = None) -> ssl.SSLContext:
    """Return a server's TLS context, version 1.2 or newer. Raises `Unreachable`.

    Clients may present a certificate signed by an authority in the file `client_ca`.
    """
    spoken = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    spoken.minimum_version = ssl.TLSVersion.TLSv1_2
    spoken.set_alpn_protocols(["postgresql"])
    try:
        spoken.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError):
        raise Unreachable(
            "The certificate or its key cannot be read, or they do not fit each other. Check the "
            "policy."
        ) from None
    if client_ca is not None:
        try:
            spoken.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError):
            raise Unreachable("[server] client_ca cannot be read. Check the policy.") from None
        spoken.verify_mode = ssl.CERT_OPTIONAL
    return spoken


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the common name in a client's certificate, as parsed by `ssl`; None unless unique.

    >>> common_name({"subject": ((("organizationName", "A bank"),), (("commonName", "ana"),))})
    'ana'
    """
    pairs = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for name, value in pairs if name == "commonName"]
    return names[0] if len(names) == 1 else None


def binding(certificate: str) -> bytes | None:
    """Return the channel binding for tls-server-end-point (RFC 5929, section 4.1).

    It is the hash of the certificate, with the algorithm of its signature or at least SHA-256. None
    if the algorithm has no hash, or if the extra serve is missing.
    """
    try:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    except ImportError:
        return None
    parsed = x509.load_pem_x509_certificate(Path(certificate).read_bytes())
    algorithm = parsed.signature_hash_algorithm
    if isinstance(algorithm, hashes.MD5 | hashes.SHA1):
        algorithm = hashes.SHA256()
    return None if algorithm is None else parsed.fingerprint(algorithm)


def self_signed(folder: Path, host: str) -> tuple[str, str]:
    """Write a certificate for `host` and its key into `folder`, once. Return both paths.

    Raises `MissingExtra`.
    """
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError:
        raise MissingExtra(
            "--self-signed needs the extra serve: pip install 'dpsql[serve]'."
        ) from None
    paths = folder / "certificate.pem", folder / "key.pem"
    if all(path.exists() for path in paths):
        return str(paths[0]), str(paths[1])
    key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    paths[0].write_bytes(_signed(key, host).public_bytes(pem))
    paths[1].touch(mode=0o600)
    paths[1].write_bytes(secret)
    return str(paths[0]), str(paths[1])


def _signed(key: Any, host: str) -> Any:
    """Return a self-signed certificate for `host` and localhost, valid for 30 days."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dpsql")])
    try:
        alternative: x509.GeneralName = x509.IPAddress(ip_address(host))
    except ValueError:
        alternative = x509.DNSName(host)
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([alternative, x509.DNSName("localhost")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
