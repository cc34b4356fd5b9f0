"""`dpsql publish`: whole folders or none, one charge, files that prove themselves, replicates."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import dpsql
from dpsql.answering import two_steps
from dpsql.answering.joint_plan import read
from dpsql.engines import Stop
from dpsql.interfaces.cli import main
from dpsql.mechanisms import sample
from dpsql.mechanisms.entropy import Entropy
from dpsql.model.vocabulary import Exact, Loss, Noise, Noisy
from dpsql.proxy import Proxy
from dpsql.release.release import release
from dpsql.systems.releases import replicates, signed_files
from dpsql.systems.releases.published_tables import PublishedRelease, PublishTables
from dpsql.systems.releases.registry_entry import read_about, round_epsilon, yaml_text
from dpsql.systems.releases.release_file import read_statements
from dpsql.systems.releases.release_files import round_answer
from dpsql.systems.releases.replicates import redraw_cells, redraw_table
from grammar_tests.proxy_kit import BY_COUNTRY, request, shop

TABLES = f"""
-- name: by_country
{BY_COUNTRY};
-- name: with_totals
SELECT country, COUNT(*) AS n FROM customers GROUP BY ROLLUP (country);
-- name: orders
SELECT status, COUNT(*) AS n, SUM(amount) AS revenue FROM orders GROUP BY status;
-- name: middle
SELECT MEDIAN(age) AS age FROM customers;
-- name: first
SELECT country, COUNT(*) AS n FROM customers GROUP BY country ORDER BY n DESC LIMIT 1;
"""
ABOUT = "\n".join(
    f'{name} = "Some {name}"'
    for name in "title curator curator_type description intended_use region sector people "
    "justification author".split()
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A shop, a file of statements, and the owner's key."""
    shop(tmp_path)
    (tmp_path / "tables.sql").write_text(TABLES)
    (tmp_path / "about.toml").write_text(ABOUT)
    private = Ed25519PrivateKey.generate()
    key = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / "key.pem").write_bytes(key)
    (tmp_path / "public.pem").write_bytes(public)
    return tmp_path


def publish(folder: Path, *options: str, to: str = "out", name: str = "tables.sql") -> Result:
    common = ["--policy", str(folder / "dpsql.toml"), "--analyst", "ana"]
    target = ["-o", str(folder / to)] if to else []
    few = ["--replicates", "50"]
    return CliRunner().invoke(
        main, ["publish", str(folder / name), *common, *few, *target, *options]
    )


def verify(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["verify", str(folder), *options])


def spent(folder: Path) -> Loss:
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        return proxy.ledger.spent("default")


def published(folder: Path, count: int = 50, text: str = TABLES) -> PublishedRelease:
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        return proxy.run(PublishTables(read_statements(text), request(""), count=count))


# --- the file ---


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    "text",
    [
        *("", "-- name: only a name", "-- name: a,b\nSELECT 1", "-- name: A\nSELECT 1"),
        *("-- name: a=b\nSELECT 1", "-- name: a\nSELECT 1;\n-- name: a\nSELECT 2"),
        *("-- name: ../a\nSELECT 1", f"-- name: {'a' * 61}\nSELECT 1"),
        "SELECT 1;\n-- name: table_1\nSELECT 2",
    ],
)
def test_names_of_tables_are_names_of_files(folder: Path, text: str) -> None:
    (folder / "bad.sql").write_text(text)
    told = publish(folder, "--yes", name="bad.sql")
    assert told.exit_code == 2, told.output
    assert not (folder / "out").exists()
    assert spent(folder) == Loss(0)


def test_statements_are_named_by_the_line_above() -> None:
    named = read_statements("-- about\n-- name: a\nSELECT ';' ;\n SELECT 2; -- name: c\n\nSELECT 3")
    assert [each.name for each in named] == ["a", "table_2", "c"]


# --- the folder ---


@pytest.mark.full("measures neighbours or further data sets")
def test_a_release_is_whole_charged_once_and_proves_itself(folder: Path) -> None:
    preview = publish(folder, "--preview", to="")
    assert (preview.exit_code, spent(folder)) == (0, Loss(0))
    told = publish(
        folder, "--yes", "--key", str(folder / "key.pem"), "--about", str(folder / "about.toml")
    )
    assert told.exit_code == 0, told.output
    once, out = spent(folder), folder / "out"
    assert once != Loss(0)
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert [each for each in files if "/" not in each] == [
        *("README.md", "dictionary.csv", "guarantee.md", "manifest.json", "manifest.sig"),
        *("methods.md", "public_key.pem", "registry.yaml"),
    ]
    assert [each for each in files if each.startswith("replicates/")] == [
        f"replicates/{name}.parquet" for name in ("by_country", "orders", "with_totals")
    ]
    assert "middle has no replicates: its groups or numbers are chosen" in told.stderr
    assert "first has no replicates: its groups depend on noise" in told.stderr
    assert verify(out, "--key", str(folder / "public.pem")).exit_code == 0
    again = publish(folder, "--yes", to="again")
    assert again.exit_code == 0
    assert "cost: nothing" in again.stderr
    assert spent(folder) == once


@pytest.mark.full("publishes a folder")
def test_a_file_says_nothing_of_the_owners_machine(folder: Path) -> None:
    assert publish(folder, "--yes", "--about", str(folder / "about.toml")).exit_code == 0
    text = b"".join(path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file())
    for word in (str(folder).encode(), b"shop.duckdb", b"ledger.db", b"salt"):
        assert word not in text


@pytest.mark.full("publishes a folder")
@pytest.mark.parametrize(
    "number", [errno.ENOSPC, pytest.param(errno.EACCES, marks=pytest.mark.campaign)]
)
def test_a_failure_after_the_charge_leaves_no_folder_and_goes_on_free(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*_: Any) -> None:
        raise OSError(number, "no")

    with monkeypatch.context() as patched:
        patched.setattr(signed_files, "write_files", full)
        assert publish(folder, "--yes").exit_code == 2
    once = spent(folder)
    assert once != Loss(0)
    assert [path.name for path in folder.iterdir() if path.name.startswith((".out", "out"))] == []
    assert publish(folder, "--yes").exit_code == 0
    assert spent(folder) == once
    assert verify(folder / "out").exit_code == 0


@pytest.mark.full("measures neighbours or further data sets")
def test_a_folder_that_is_used_is_refused_before_the_charge(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "mine.txt").write_text("mine")
    told = publish(folder, "--yes")
    assert (told.exit_code, spent(folder)) == (2, Loss(0))
    assert [path.name for path in (folder / "out").iterdir()] == ["mine.txt"]


@pytest.mark.full("measures neighbours or further data sets")
def test_all_refusals_are_told_and_nothing_is_charged(folder: Path) -> None:
    (folder / "bad.sql").write_text(
        f"{TABLES};\n-- name: raw\nSELECT name FROM customers; SELECT x"
    )
    told = publish(folder, "--yes", name="bad.sql")
    assert (told.exit_code in (1, 3), spent(folder)) == (True, Loss(0))
    assert "raw:\nraw-rows" in told.stderr or "raw:\nhidden" in told.stderr
    assert "table_7:" in told.stderr
    assert not (folder / "out").exists()


# --- what it says ---


@pytest.mark.full("opens a proxy for each item")
def test_the_loss_counts_every_charge_also_earlier_ones(folder: Path) -> None:
    text = "-- name: a\nSELECT SUM(amount) AS s FROM orders"
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        proxy.ask(request("SELECT SUM(amount) AS s FROM orders"))
        alone = proxy.ledger.spent("default")
    found = published(folder, 5, text)
    assert (found.receipt.charged, found.loss) == (Loss(0), alone)
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        entries = proxy.ledger.history(None, 10)
    assert len(entries) >= 1
    assert found.loss == Loss(sum(each.loss.amount for each in entries), found.loss.delta)


@pytest.mark.full("opens a proxy for each item")
def test_the_loss_counts_limits_that_were_found_under_another_text(folder: Path) -> None:
    """The twin forgets the first steps."""
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        proxy.ask(request("SELECT COUNT(*) AS n FROM logins", "0.3"))
    found = published(folder, 2, "-- name: a\nSELECT COUNT(*) AS logins FROM logins")
    assert found.loss == spent(folder)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_first_step_that_is_forgotten_would_be_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_step = two_steps.last_step
    monkeypatch.setattr(two_steps, "last_step", lambda *of: (last_step(*of)[0], frozenset[str]()))
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        proxy.ask(request("SELECT COUNT(*) AS n FROM logins", "0.3"))
    found = published(folder, 2, "-- name: a\nSELECT COUNT(*) AS logins FROM logins")
    assert found.loss.amount < spent(folder).amount


@pytest.mark.full("publishes a folder")
def test_the_registry_entry_has_the_fields_of_its_template(folder: Path) -> None:
    assert publish(folder, "--yes", "--about", str(folder / "about.toml")).exit_code == 0
    entry = yaml.safe_load((folder / "out" / "registry.yaml").read_text())
    deployment = entry["deployment"]
    assert list(deployment) == [
        *("basic", "dp_variant", "privacy_loss", "deployment_model", "implementation"),
        "administrative",
    ]
    assert deployment["basic"]["data_curators"] == [
        {"data_curator_name": "Some curator", "data_curator_type": "Some curator_type"}
    ]
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters["rho"] == spent(folder).amount / 1e9
    assert deployment["administrative"]["tier"] == 3
    assert "" not in [deployment["basic"]["name"], deployment["implementation"]["justification"]]


def test_an_unknown_fact_about_a_release_is_named() -> None:
    with pytest.raises(ValueError, match="titel is no text about a release"):
        read_about('titel = "a"')
    with pytest.raises(ValueError, match="title is no text"):
        read_about("title = 1")
    assert yaml.safe_load(yaml_text({"a": {"b": [{"c": "x: #\n\"'"}, "ü"]}})) == {
        "a": {"b": [{"c": "x: #\n\"'"}, "ü"]}
    }
    for epsilon in (0.6801, 1.637942, 1.64, 12.341, 99.99):
        assert epsilon <= round_epsilon(epsilon) <= epsilon * 1.011


@pytest.mark.full("measures neighbours or further data sets")
def test_rounded_intervals_hold_what_they_held(folder: Path) -> None:
    answer = next(each.answer for each in published(folder, 2).tables if each.name == "orders")
    rounded = round_answer(answer, 5)
    for row, ends, small, narrow in zip(
        rounded.rows, rounded.intervals, answer.rows, answer.intervals, strict=True
    ):
        assert ends[1] is not None
        assert narrow[1] is not None
        assert row[1] % 5 == 0
        assert abs(row[1] - small[1]) <= 2.5
        assert ends[1][0] % 5 == ends[1][1] % 5 == 0
        assert ends[1][0] <= narrow[1][0] <= narrow[1][1] <= ends[1][1]
        assert (row[2], ends[2]) == (small[2], narrow[2])


# --- verification ---


def _change(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def _edit_manifest(out: Path) -> None:
    """Change a table, and its hash in the manifest too."""
    target = out / "tables/by_country.csv"
    _change(target)
    document = json.loads((out / "manifest.json").read_text())
    document["files"]["tables/by_country.csv"] = sha256(target.read_bytes()).hexdigest()
    (out / "manifest.json").write_text(json.dumps(document))


EDITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed byte": (lambda out: _change(out / "tables/by_country.csv"), "was changed"),
    "a missing file": (lambda out: (out / "README.md").unlink(), "README.md is missing"),
    "an added file": (lambda out: (out / "tables/new.csv").touch(), "was added"),
    "a link": (lambda out: (out / "more").symlink_to(out), "more is a link"),
    "an edited manifest": (_edit_manifest, "the signature is not of it"),
    "a damaged signature": (lambda out: _change(out / "manifest.sig"), "signature"),
    "no signature": (lambda out: (out / "manifest.sig").unlink(), "signature cannot be read"),
}


@pytest.mark.full("publishes a folder")
def test_every_edit_of_a_release_is_found(folder: Path) -> None:
    assert publish(folder, "--yes", "--key", str(folder / "key.pem")).exit_code == 0
    kept = {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()}
    for title, (edit, words) in EDITS.items():
        edit(folder / "out")
        told = verify(folder / "out", "--key", str(folder / "public.pem"))
        assert (told.exit_code, words in told.stderr) == (1, True), (title, told.output)
        for path in (folder / "out").rglob("*"):
            if path.is_symlink() or path.is_file():
                path.unlink()
        for path, content in kept.items():
            path.write_bytes(content)
    assert verify(folder / "out", "--key", str(folder / "public.pem")).exit_code == 0
    other = Ed25519PrivateKey.generate().public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    (folder / "other.pem").write_bytes(other.public_bytes(serialization.Encoding.PEM, form))
    assert "another key" in verify(folder / "out", "--key", str(folder / "other.pem")).stderr


@pytest.mark.full("publishes a folder")
def test_an_unsigned_release_is_not_taken_for_the_owners(folder: Path) -> None:
    assert publish(folder, "--yes").exit_code == 0
    assert "not signed" in verify(folder / "out").stderr
    assert verify(folder / "out", "--key", str(folder / "public.pem")).exit_code == 1


@pytest.mark.parametrize("key", ["", "tables.sql", "rsa.pem"])
def test_a_key_that_cannot_sign_is_refused_before_the_charge(folder: Path, key: str) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    form = serialization.PrivateFormat.PKCS8
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, form, serialization.NoEncryption()
    )
    (folder / "rsa.pem").write_bytes(other)
    told = publish(folder, "--yes", "--key", str(folder / key))
    assert (told.exit_code, spent(folder)) == (2, Loss(0))


# --- replicates ---


AGREEING = f"""
-- name: by_country
{BY_COUNTRY};
-- name: norway
SELECT country, COUNT(*) AS n FROM customers WHERE country = 'NO' GROUP BY country;
-- name: total
SELECT COUNT(*) AS n FROM customers
"""


def _gap(found: PublishedRelease) -> float:
    """The largest difference, in any replicate, of what two tables say of the same people."""
    groups, alone, _ = found.tables
    place = [row[0] for row in groups.answer.rows].index("NO")
    assert groups.answer.rows[place] == alone.answer.rows[0]
    numbers = groups.replicates.numbers[:, place, 0] - alone.replicates.numbers[:, 0, 0]
    return float(np.max(np.abs(numbers)))


@pytest.mark.full("draws random questions or values")
def test_replicates_add_the_same_noise_to_tables_of_one_measurement(folder: Path) -> None:
    """The twin draws for each table alone."""
    assert _gap(published(folder, 50, AGREEING)) == 0


@pytest.mark.full("draws random questions or values")
def test_noise_drawn_for_each_table_alone_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = replicates._redraw
    monkeypatch.setattr(
        replicates, "_redraw", lambda parts, each, sampler, _: shared(parts, each, sampler, {})
    )
    assert _gap(published(folder, 50, AGREEING)) > 0


CELLS = np.array([900, 1500, 700])


def _statistics(cells: np.ndarray) -> np.ndarray:
    """Thirty smooth statistics of three counts and three sums, along the last axis."""
    a, b, c = (cells[..., n, 0] for n in range(3))
    x, y, z = (cells[..., n, 1] for n in range(3))
    total = a + b + c
    return np.stack(
        [
            *(a, b, c, a + b, a - c, total, 2 * a + 3 * b - c, a / total, b / total, c / b),
            *(x, y, z, x + y, x - z, x + y + z, x / a, y / b, z / c, (x + y + z) / total),
            *(np.log(a), np.log(b / c), np.sqrt(total), a * b / total, (a - b) / (a + b)),
            *(x / a - y / b, np.log(x / a), y / (x + y + z), a**2, np.hypot(a, b)),
        ],
        axis=-1,
    )


def _coverage(folder: Path, redraw: Callable[..., Noisy], draws: int = 600) -> np.ndarray:
    """The shares of releases with the truth inside, for each statistic."""
    sampler = lambda law, count: sample(law, count, entropy=Entropy())  # noqa: E731
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        query = proxy.compiler.read(
            request("SELECT country, COUNT(*) AS n, SUM(age) AS s FROM customers GROUP BY country"),
            Stop(),
        )
        (block,) = proxy.compiler.prepared(query).blocks
    assert block.domain is not None
    parts = [CELLS * (1 if n == 0 else 45) for n in range(len(block.releases))]
    exact = Exact(list(block.domain), parts)
    truth = _statistics(np.stack(parts[:2], axis=-1).astype(float))
    inside = np.zeros(truth.shape[-1])
    for _ in range(draws):
        noisy = release(exact, block, sampler)
        tall = replace(noisy, keys=noisy.keys * 100, parts=noisy.parts * 100)
        drawn = np.array(redraw(block, tall, sampler).parts, dtype=float).reshape(100, 3, -1)
        spread = np.std(_statistics(drawn), axis=0, ddof=1)
        told = _statistics(np.array(noisy.parts, dtype=float))
        inside += np.abs(told - truth) <= 1.96 * spread
    return inside / draws


@pytest.mark.full("draws 600 releases")
def test_replicates_give_intervals_that_hold(folder: Path) -> None:
    shares = _coverage(folder, redraw_table)
    assert 0.94 <= shares.mean() <= 0.96
    assert shares.min() >= 0.92


def test_replicates_with_half_the_noise_are_found(folder: Path) -> None:
    def half(block: Any, noisy: Noisy, sampler: Any) -> Noisy:
        less = [
            replace(each, payment=replace(each.payment, noise=_quarter(each.payment.noise)))
            for each in block.releases
        ]
        return redraw_table(replace(block, releases=tuple(less)), noisy, sampler)

    assert _coverage(folder, half, 60).mean() < 0.8


def _quarter(noise: Any) -> Any:
    return replace(noise, scale=noise.scale * Fraction(1, 4))


def _shares_of_merged(folder: Path) -> tuple[float, float]:
    """The shares of 4,000 releases whose merged number holds the truth: measured once more, and
    summed of the published cells, where a noisy count below 20 decides what is merged.
    """
    merged = "SELECT CASE WHEN age BETWEEN 20 AND 29 THEN age END AS a, COUNT(*) FROM customers"
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        query = proxy.compiler.read(request(f"{merged} GROUP BY 1"), Stop())
        (block,) = proxy.compiler.prepared(query).blocks
        error = proxy.explain(request(f"{merged} GROUP BY 1")).expected[1]
        noise = block.releases[0].payment.noise
        assert isinstance(noise, Noise)
        cells = proxy.vault.sampler(noise, 4000 * 11).reshape(4000, 11)
    assert error is not None
    assert block.domain == (*((age,) for age in range(20, 30)), (None,))
    noisy = cells[:, :10] + 20
    small = noisy < 20
    gaps = np.where(small, noisy - 20, 0).sum(axis=1)
    return (
        float(np.mean(np.abs(cells[:, 10]) <= error)),
        float(np.mean(np.abs(gaps) <= error * np.sqrt(small.sum(axis=1)))),
    )


@pytest.mark.full("opens a proxy")
def test_an_interval_of_merged_cells_holds_whatever_was_merged(folder: Path) -> None:
    """The twin adds the published cells up."""
    measured, summed = _shares_of_merged(folder)
    assert 0.94 <= measured <= 0.965
    assert summed < 0.9


@pytest.mark.full("draws random questions or values")
def test_cells_of_a_measured_table_are_redrawn_with_its_noise(folder: Path) -> None:
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        proxy.run(PublishTables(read_statements(AGREEING), request(""), count=50))
        query = read(proxy.compiler, request(BY_COUNTRY), Stop())
        wide = proxy.compiler.prepared(query).wide
        assert wide is not None
        known = proxy.vault.memory.measurements(proxy.compiler, query, wide.prepared.question)
        (table, *_) = known.values()
        sampler = proxy.vault.sampler
        (part,) = table.parts
        drawn = [redraw_cells(table, sampler).parts[part] - table.parts[part] for _ in range(400)]
    variance = float(np.var(np.array(drawn)))
    assert variance == pytest.approx(float(table.noises[part].scale), rel=0.15)


# --- the cursor's ---


@pytest.mark.full("draws answers")
def test_a_cursor_draws_replicates_of_a_remembered_answer(folder: Path) -> None:
    with dpsql.connect(str(folder / "dpsql.toml"), analyst="ana") as connection:
        cursor = connection.cursor().execute(BY_COUNTRY)
        before, rows = spent(folder), cursor.fetchall()
        copies = cursor.replicates(400)
        assert [[row[0] for row in copy] for copy in copies] == [[row[0] for row in rows]] * 400
        spreads = np.array([[row[1] for row in copy] for copy in copies]).std(axis=0, ddof=1)
        assert spreads == pytest.approx([row[1] for row in cursor.errors], rel=0.2)
        assert spent(folder) == before

        mixed = cursor.execute(
            "SELECT country, COUNT(*) AS n, MAX(age) AS m FROM customers GROUP BY 1"
        )
        with pytest.raises(dpsql.NotSupportedError, match="chosen by noise"):
            mixed.replicates()
        cursor.executemany("SELECT COUNT(*) FROM customers WHERE age > ?", [[20], [30]])
        with pytest.raises(dpsql.ProgrammingError, match="one SELECT"):
            cursor.replicates()
        with pytest.raises(dpsql.ProgrammingError, match="between 50 and"):
            cursor.execute(BY_COUNTRY).replicates(49)


@pytest.mark.full("draws answers")
def test_an_answer_that_is_forgotten_has_no_replicates_and_is_not_paid_again(folder: Path) -> None:
    with dpsql.connect(str(folder / "dpsql.toml"), analyst="ana") as connection:
        cursor = connection.cursor().execute(BY_COUNTRY)
        before = spent(folder)
        cursor._request = replace(request(BY_COUNTRY), sql="SELECT COUNT(*) FROM orders")
        with pytest.raises(dpsql.ProgrammingError, match="execute the query again"):
            cursor.replicates()
        assert spent(folder) == before


@pytest.mark.full("draws answers")
def test_an_agent_draws_replicates_of_its_own_answer(folder: Path) -> None:
    path = str(folder / "dpsql.toml")
    with dpsql.connect(path, analyst="ana") as owner:
        until = ["--epsilon", "0.5", "--until", "2100-01-01", "--policy", path]
        CliRunner().invoke(main, ["user", "delegate", "ana", "--to", "robot", *until])
        with dpsql.connect(path, analyst="robot") as connection:
            cursor = connection.cursor().execute(BY_COUNTRY, epsilon="0.4")
            assert len(cursor.replicates(50)) == 50
            owner.proxy.ledger.revoke("robot", "why")
            with pytest.raises(dpsql.DatabaseError, match=r"revoked|ended"):
                cursor.replicates(50)


def test_an_answer_without_a_measurement_of_its_own_has_no_replicates(folder: Path) -> None:
    with dpsql.connect(str(folder / "dpsql.toml"), analyst="ana") as connection:
        options = "WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = 'off')"
        cursor = connection.cursor().execute(f"SELECT {options} COUNT(*) FROM customers")
        with pytest.raises(dpsql.NotSupportedError, match="for no memory"):
            cursor.replicates(50)


@pytest.mark.full("publishes a folder")
def test_replicates_begin_with_the_published_numbers(folder: Path) -> None:
    assert publish(folder, "--yes").exit_code == 0
    found = pq.read_table(folder / "out/replicates/by_country.parquet").to_pylist()
    assert [each["replicate"] for each in found] == [n for n in range(51) for _ in range(3)]
    shown = pq.read_table(folder / "out/tables/by_country.parquet").to_pylist()
    assert [(r["country"], r["n"]) for r in found[:3]] == [(r["country"], r["n"]) for r in shown]
