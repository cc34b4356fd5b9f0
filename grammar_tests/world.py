"""The data behind the catalogs: a shop, well-behaved or adversarial, built without randomness."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from math import inf, nan
from typing import Any

import duckdb

Tables = dict[str, list[tuple[Any, ...]]]

COLUMNS = {
    "countries": "code VARCHAR {key}, region VARCHAR",
    "products": "product_id INTEGER {key}, category VARCHAR, list_price DECIMAL(8, 2)",
    "customers": (
        "customer_id INTEGER {key}, country VARCHAR, segment VARCHAR {segment}, city VARCHAR,"
        " age INTEGER, income DOUBLE, vip BOOLEAN, joined DATE, name VARCHAR, secret VARCHAR"
    ),
    "orders": (
        "order_id INTEGER {key}, customer_id INTEGER {link_customers}, amount DECIMAL(10, 2),"
        " quantity INTEGER, discount DOUBLE, placed_at TIMESTAMP, status VARCHAR, note VARCHAR,"
        " note_length INTEGER"
    ),
    "items": (
        "item_id INTEGER {key}, order_id INTEGER {link_orders}, product_id INTEGER,"
        " price DECIMAL(8, 2), units INTEGER"
    ),
    "events": (
        "event_id INTEGER {key}, customer_id INTEGER {link_customers}, device VARCHAR,"
        " duration BIGINT"
    ),
    "logins": "login_id INTEGER {key}, customer_id INTEGER {link_customers}, day DATE",
}
CONSTRAINTS = {
    "key": "PRIMARY KEY",
    "link_customers": "NOT NULL REFERENCES customers (customer_id)",
    "link_orders": "NOT NULL REFERENCES orders (order_id)",
    "segment": "CHECK (segment IN ('consumer', 'business'))",
}
UNITS = 12
CITIES = ("Oslo", "Bergen", "Tromsø", "Oslo")
STATUSES = ("open", "paid", "returned")
DEVICES = ("phone", "tablet", "desktop")
PUBLIC: Tables = {
    "countries": [("NO", "north"), ("SE", "north"), ("IT", "south")],
    "products": [
        (1, "book", Decimal("12.50")),
        (2, "toy", Decimal("30.00")),
        (3, "book", Decimal("7.25")),
    ],
}


def well_behaved() -> Tables:
    """Every key unique, every link whole, every value inside its bounds, every limit kept."""
    tables: Tables = {
        **PUBLIC,
        "customers": [],
        "orders": [],
        "items": [],
        "events": [],
        "logins": [],
    }
    for unit in range(1, UNITS + 1):
        tables["customers"].append(customer(unit))
        for n in range(unit % 4):
            number = unit * 10 + n
            tables["orders"].append(order(number, unit, n))
            tables["items"] += [
                (number * 10 + i, number, i % 3 + 1, Decimal(5 * i + 1), i % 4)
                for i in range(n + 1)
            ]
        tables["events"] += [
            (unit * 10 + n, unit, DEVICES[(unit + n) % 2], 60 * n) for n in range(unit % 3)
        ]
        tables["logins"] += [(unit * 10 + n, unit, date(2024, 1, 1 + n)) for n in range(unit % 5)]
    return tables


def customer(unit: int) -> tuple[Any, ...]:
    country = ("NO", "SE", "IT")[unit % 3]
    age = None if unit % 5 == 0 else 10 * unit % 90
    joined = date(2020, 1, 1) + timedelta(days=100 * unit)
    segment = ("consumer", "business")[unit % 2]
    name = f"name {unit}"
    city, score = CITIES[unit % 4], 1000.5 * unit
    return (
        unit, country, segment, city, age, score, unit % 3 == 0, joined, name, name
    )  # fmt: skip


def order(number: int, unit: int, n: int) -> tuple[Any, ...]:
    placed = datetime(2024, 1 + unit % 12, 1 + n, 3 * n, 15)
    discount = None if n == 1 else 0.25 * n
    note = None if n == 2 else ("gift", "12", "a note")[unit % 3]
    amount = Decimal(unit * 7 + n * 11) + Decimal("0.25")
    return (
        number, unit, amount, n + 1, discount, placed, STATUSES[(unit + n) % 3], note, 5 * n
    )  # fmt: skip


def adversarial() -> Tables:
    """Duplicate and dangling keys, values at and beyond bounds, NULL, NaN, infinities, a flood."""
    tables = well_behaved()
    huge, tiny = Decimal("99999999.99"), Decimal("-99999999.99")
    odd = [
        (huge, 2**31 - 1, inf),
        (tiny, -(2**31), -inf),
        (None, None, nan),
        (Decimal(500), 20, 1.0),
    ]
    when = (datetime(1, 1, 1), datetime(9999, 12, 31), None, datetime(2025, 12, 31, 23, 59, 59))
    for n in range(60):  # one unit with far too many rows, in every group there is
        amount, quantity, discount = odd[n % 4]
        status = (*STATUSES, "unheard of", None)[n % 5]
        note = ("9" * 30, "", None, "x" * 50)[n % 4]
        tables["orders"].append(
            (1000 + n % 50, 1, amount, quantity, discount, when[n % 4], status, note, 2**31 - 1)
        )
        tables["items"].append((5000 + n, 1000 + n % 50, n % 4, Decimal("999999.99"), -(2**31)))
        tables["items"].append((6000 + n, 20 + n % 3, n % 5, Decimal("-999999.99"), 2**31 - 1))
        tables["events"].append((7000 + n, 2, f"device {n}", 2**62))
        tables["events"].append((7000 + n, 3, None, -(2**62)))
    tables["customers"] += [
        (1, "SE", "business", "Bergen", 500, inf, None, None, "twin", None),
        (4, None, None, None, -7, nan, None, date(1, 1, 1), "twin", None),
        (None, "NO", "consumer", "Oslo", 30, 1.0, True, date(2021, 1, 1), "nobody", None),
        (20, "XX", "other", "", 0, -inf, False, date(9999, 12, 31), "", None),
    ]
    tables["logins"] += [(8000 + n, n % 2 + 1, date(2024, 2, 1 + n)) for n in range(28)]
    # An order number shared by two units, links that lead nowhere, and links that are NULL.
    tables["orders"].append(order(20, 5, 1))
    tables["orders"].append(order(9999, 999, 1))
    tables["orders"].append((9998, None, *order(9998, 1, 1)[2:]))
    tables["items"].append((9000, 9999, 1, Decimal(3), 1))
    tables["items"].append((9001, None, 1, Decimal(3), 1))
    tables["items"].append((9002, 123456, 1, Decimal(3), 1))
    return tables


def unowned() -> Tables:
    """Well-behaved rows, and for each a copy that belongs to no unit.

    The copy has a key of its own and every other value of the row. Its link is NULL, leads nowhere,
    or leads to such a copy.
    """
    tables = well_behaved()
    apart = 100_000
    for name in ("orders", "events", "logins"):
        tables[name] += [
            (apart + key, None if key % 2 else apart, *rest) for key, _, *rest in tables[name]
        ]
    tables["items"] += [
        (apart + key, None if key % 3 else apart + order, *rest)
        for key, order, *rest in tables["items"]
    ]
    return tables


def empty() -> Tables:
    """No private row at all."""
    return {**PUBLIC, "customers": [], "orders": [], "items": [], "events": [], "logins": []}


def flood() -> Tables:
    """Well-behaved keys and links, and one unit in every group, listed or not, with extremes."""
    tables = well_behaved()
    for n in range(45):
        tables["orders"].append(
            (2000 + n, 7, Decimal("99999999.99"), 2**31 - 1, (nan, inf, -inf)[n % 3],
             datetime(2024, 1 + n % 12, 1 + n % 28, n % 24), _status(n), f"{n}", n)
        )  # fmt: skip
        tables["items"].append((3000 + n, 2000 + n, n % 3 + 1, Decimal("-999999.99"), 2**31 - 1))
        tables["events"].append((4000 + n, 7, f"device {n}", 2**62))
    return tables


def rivals() -> Tables:
    """Two units beyond every limit, in different groups and at opposite ends of the same ones."""
    tables = well_behaved()
    for unit, hours, word in ((7, (0, 3, 6), "device"), (8, (12, 13, 14), "gadget")):
        for n in range(60):
            high = (n % 3 == 0) == (unit == 7)
            number, placed = 1000 * unit + n, datetime(2024, unit, 1 + n % 28, hours[n % 3])
            amount, quantity = Decimal("99999999.99") * (1 if high else -1), (2**31 - 1) * high
            rows = (amount, quantity, inf if high else -inf, placed, STATUSES[n % 3], f"{word} {n}")
            tables["orders"].append((number, unit, *rows, n))
            price = Decimal("999999.99") * (1 if high else -1)
            tables["items"].append((number, number, n % 3 + 1, price, quantity))
            tables["events"].append((number, unit, f"{word} {n}", 2**62 * high))
            tables["logins"].append((number, unit, date(2024, unit, 1) + timedelta(days=n)))
    return tables


def exceeding() -> Tables:
    """Keys, links and checks are kept, and everything else is beyond what the policy declares."""
    tables = well_behaved()
    for n in range(45):
        tables["orders"].append(
            (2000 + n, 7, Decimal(90 * n - 900), 7 * n - 70, n / 4 - 3,
             datetime(2022 + n % 6, 1 + n % 12, 1 + n % 28, n % 24), _status(n), f"{n}", n)
        )  # fmt: skip
        tables["items"].append((3000 + n, 2000 + n, n % 3 + 1, Decimal(9 * n - 60), n - 7))
        tables["events"].append((4000 + n, 7, f"device {n}", 200 * n - 900))
    tables["customers"] += [
        (101, "XX", "consumer", "Bodø", 150, -5.5, True, date(2019, 5, 1), "odd", None),
        (102, "YY", "business", "Oslo", -30, 3e6, False, date(2031, 5, 1), "odd", None),
    ]
    tables["logins"] += [(8000 + n, 7, date(2023, 11, 2) + timedelta(9 * n)) for n in range(60)]
    return tables


def _status(n: int) -> str:
    """Now a status that the policy lists, now one that it does not."""
    return STATUSES[n % 3] if n % 2 else f"status {n}"


def build(
    tables: Tables, path: str = ":memory:", *, constraints: bool
) -> duckdb.DuckDBPyConnection:
    """A database with these rows; with constraints only where the rows satisfy them."""
    connection = duckdb.connect(path)
    fill(connection, tables, constraints=constraints)
    return connection


def fill(connection: duckdb.DuckDBPyConnection, tables: Tables, *, constraints: bool) -> None:
    """The same into the schema that the connection uses."""
    words = CONSTRAINTS if constraints else dict.fromkeys(CONSTRAINTS, "")
    for table, columns in COLUMNS.items():
        connection.execute(f"CREATE TABLE {table} ({columns.format(**words)})")
        for rows in batched(tables[table], 256):
            marks = f"({', '.join('?' * len(rows[0]))})"
            listed = ", ".join([marks] * len(rows))
            connection.execute(f"INSERT INTO {table} VALUES {listed}", [*chain(*rows)])


def batched(rows: list[tuple[Any, ...]], most: int) -> Iterator[list[tuple[Any, ...]]]:
    """The rows, so many at once."""
    for first in range(0, len(rows), most):
        yield rows[first : first + most]


def units(tables: Tables) -> list[int]:
    """The privacy units that have any row."""
    return sorted({row[0] for row in tables["customers"] if row[0] is not None})


def deletions(unit: int, *, others: bool = False) -> list[str]:
    """Removes a unit, or all others: its rows, and those from which a path of links leads to it."""
    whose = f"customer_id {'<>' if others else '='} {unit}"
    mine = f"SELECT order_id FROM orders WHERE {whose}"
    return [
        f"DELETE FROM items WHERE order_id IN ({mine})",
        f"DELETE FROM orders WHERE {whose}",
        f"DELETE FROM events WHERE {whose}",
        f"DELETE FROM logins WHERE {whose}",
        f"DELETE FROM customers WHERE {whose}",
    ]
