"""SCRAM-SHA-256: the example of RFC 7677, and whom it keeps out."""

from __future__ import annotations

import base64
import hmac
import os
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path

import pytest

from dpsql.interfaces.pgwire import login_file
from dpsql.interfaces.pgwire.entrance import Authentication
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.login import Login, LoginFailed
from dpsql.interfaces.pgwire.login_file import (
    BLOCKED,
    ByCertificate,
    User,
    Verifier,
    nobody,
    read_users,
    verifier_of,
    write_users,
)

# RFC 7677, section 3: user "user", password "pencil".
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_PROOF = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def initial(text: str, mechanism: str = "SCRAM-SHA-256") -> bytes:
    body = text.encode()
    return mechanism.encode() + b"\0" + len(body).to_bytes(4, "big") + body


def example() -> Verifier:
    salted = pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
    stored = sha256(hmac.digest(salted, b"Client Key", sha256)).digest()
    return Verifier(SALT, 4096, stored, hmac.digest(salted, b"Server Key", sha256))


def challenged(header: str = "n,,", binding: bytes | None = None) -> Login:
    login = Login(example(), binding, SERVER_NONCE)
    login.first(initial(f"{header}n=user,r={NONCE}"))
    return login


def test_the_example_of_the_rfc() -> None:
    login = Login(example(), None, SERVER_NONCE)
    challenge = login.first(initial(f"n,,n=user,r={NONCE}"))
    assert challenge == f"r={NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    final = f"c=biws,r={NONCE}{SERVER_NONCE},p={PROOF}".encode()
    assert login.final(final) == SERVER_PROOF


@pytest.mark.parametrize(
    "final",
    [
        f"c=biws,r={NONCE}{SERVER_NONCE},p={PROOF[::-1]}",
        f"c=biws,r={NONCE},p={PROOF}",
        f"c=eSws,r={NONCE}{SERVER_NONCE},p={PROOF}",
        f"c=biws,r={NONCE}{SERVER_NONCE}",
        f"c=biws,r={NONCE}{SERVER_NONCE},p=",
        f"c=biws,r={NONCE}{SERVER_NONCE},p=é",
        "",
    ],
)
def test_anything_but_the_proof_is_refused(final: str) -> None:
    with pytest.raises(LoginFailed):
        challenged().final(final.encode())


@pytest.mark.parametrize(
    ("body", "binding"),
    [
        (initial("n,,n=user,r=x", "SCRAM-SHA-1"), None),
        (initial("n,,n=user,r=x", "SCRAM-SHA-256-PLUS"), None),
        (initial("n,,n=user,r=x", "SCRAM-SHA-256-PLUS"), b"hash"),
        (initial("y,,n=user,r=x"), b"hash"),
        (initial("p=tls-server-end-point,,n=user,r=x"), b"hash"),
        (initial("n,a=root,n=user,r=x"), None),
        (initial("n,,m=ext,n=user,r=x"), None),
        (initial("n,,n=user"), None),
        (b"\xff\0\0\0\0\1n", None),
        (b"", None),
    ],
)
def test_a_beginning_that_does_not_fit_is_refused(body: bytes, binding: bytes | None) -> None:
    with pytest.raises(LoginFailed):
        Login(example(), binding).first(body)


def test_the_proof_is_bound_to_the_certificate() -> None:
    header = "p=tls-server-end-point,,"
    for heard, good in ((b"hash", True), (b"another", False)):
        login = Login(example(), b"hash", SERVER_NONCE)
        challenge = login.first(initial(f"{header}n=,r={NONCE}", "SCRAM-SHA-256-PLUS")).decode()
        bound = base64.b64encode(header.encode() + heard).decode()
        unproved = f"c={bound},r={NONCE}{SERVER_NONCE}"
        said = f"n=,r={NONCE},{challenge},{unproved}".encode()
        client_key = hmac.digest(
            pbkdf2_hmac("sha256", b"pencil", SALT, 4096), b"Client Key", sha256
        )
        signature = hmac.digest(sha256(client_key).digest(), said, sha256)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        final = f"{unproved},p={base64.b64encode(proof).decode()}".encode()
        if good:
            assert login.final(final).startswith(b"v=")
        else:
            with pytest.raises(LoginFailed):
                login.final(final)


def test_who_does_not_exist_fails_like_a_wrong_password() -> None:
    told = []
    for verifier in (None, example()):
        asked = Authentication.of("eve", verifier, None)
        asked.first(initial(f"n,,n=,r={NONCE}"))
        with pytest.raises(Fault) as caught:
            asked.final(b"c=biws,r=x,p=AAAA")
        told.append(caught.value.fields)
    assert told[0] == told[1]
    assert nobody("eve").salt == nobody("eve").salt != nobody("adam").salt


def test_salts_of_unknown_users_outlive_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dpsql.users"
    old = f"{verifier_of('pw')} ana\n"  # as it was written before files had a secret
    path.write_text(old, encoding="utf-8")
    assert set(read_users(str(path))) == {"ana"}
    write_users(str(path), dict(read_users(str(path))))
    before = read_users(str(path)).secret
    monkeypatch.setattr(login_file, "_process_secret", lambda: b"of another process")
    write_users(str(path), read_users(str(path)))
    assert read_users(str(path)).secret == before
    assert nobody("eve", before).salt == nobody("eve", read_users(str(path)).secret).salt
    path.write_text(old, encoding="utf-8")  # the wrong twin: a file without its secret
    assert nobody("eve", before).salt != nobody("eve", read_users(str(path)).secret).salt


def test_verifiers_are_kept_and_passwords_are_not(tmp_path: Path) -> None:
    path = str(tmp_path / "dpsql.users")
    assert read_users(path) == {}
    written = {
        "ana lyst": User(verifier_of("pässword")),
        "bob": User(verifier_of("secret"), disabled=True),
        "eve": User(ByCertificate()),
        "kim": BLOCKED,
    }
    write_users(path, written)
    text = Path(path).read_text(encoding="utf-8")
    assert Path(path).stat().st_mode & 0o077 == 0
    assert not any(word in text for word in ("pässword", "secret"))
    assert read_users(path) == written
    assert "hidden" in repr(written["bob"])


def test_an_edit_of_the_file_counts_at_once(tmp_path: Path) -> None:
    """Also one that a look at the file's times and size would not see."""
    path = tmp_path / "dpsql.users"
    path.write_text("certificate ana\n")
    before, times = read_users(str(path)), path.stat()
    path.write_text("certificate bob\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (set(before), set(read_users(str(path)))) == ({"ana"}, {"bob"})
    read_users(str(path)).clear()
    assert set(read_users(str(path))) == {"bob"}


@pytest.mark.parametrize(
    "line", ["certificates ana", "disabled:disabled:certificate ana", "none ana", "x ana"]
)
def test_a_broken_line_is_no_user(tmp_path: Path, line: str) -> None:
    (tmp_path / "dpsql.users").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"."):
        read_users(str(tmp_path / "dpsql.users"))


@pytest.mark.parametrize("password", ["", "a\nb", "a\0b"])
def test_a_password_has_no_control_characters(password: str) -> None:
    with pytest.raises(ValueError, match="control"):
        verifier_of(password)


def test_passwords_are_prepared_as_clients_do() -> None:
    salt = b"0123456789abcdef"
    assert verifier_of("\u2168", salt) == verifier_of("IX", salt)
    assert verifier_of("a\u00adb\u00a0c", salt) == verifier_of("ab c", salt)
    assert login_file.verifier_of("IX", salt) != verifier_of("ix", salt)
