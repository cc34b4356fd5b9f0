"""Noise for a million groups: seconds, draws per second and peak memory, beside two yardsticks.

`python -m benchmarks.noise` prints each law and scale next to the raw cost of os.urandom and,
where it is installed, to OpenDP's samplers. Ratios are of medians within one run.
"""

from __future__ import annotations

import os
import statistics
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from math import sqrt
from typing import Any

from benchmarks.common import seconds, table
from dpsql.mechanisms import sample
from dpsql.mechanisms.entropy import Entropy
from dpsql.model.vocabulary import Mechanism, Noise

DRAWS = 10**6
ROUNDS = 3
OPENDP_DRAWS = 20_000
LAPLACE, GAUSSIAN = Mechanism.DISCRETE_LAPLACE, Mechanism.DISCRETE_GAUSSIAN
LAWS = (
    Noise(LAPLACE, Fraction(1)),
    Noise(LAPLACE, Fraction(10)),
    Noise(LAPLACE, Fraction(12345, 10)),
    Noise(LAPLACE, Fraction(50 << 30)),
    Noise(LAPLACE, Fraction(50 << 45)),
    Noise(GAUSSIAN, Fraction(4)),
    Noise(GAUSSIAN, Fraction(1417175, 8)),
    Noise(GAUSSIAN, Fraction(4096) ** 2),
    Noise(GAUSSIAN, Fraction(50 << 30) ** 2),
    Noise(GAUSSIAN, Fraction(50 << 45) ** 2),
)


def main() -> None:
    entropy = Entropy()
    raw = median(lambda: os.urandom(8 * DRAWS))
    rows = [measured(noise, raw, entropy) for noise in LAWS]
    header = ("law", "b or σ", "seconds", "draws/s", "peak MB", "× os.urandom(8n)", "OpenDP ×")
    table(f"{DRAWS:,} draws; os.urandom of 8 bytes each takes {raw:.3g} s", header, rows)


def measured(noise: Noise, raw: float, entropy: Entropy) -> tuple[object, ...]:
    scale = float(noise.scale) if noise.mechanism is LAPLACE else sqrt(noise.scale)
    took = median(lambda: sample(noise, DRAWS, entropy))
    peak = peak_bytes(lambda: sample(noise, DRAWS, entropy)) / 1e6
    theirs = opendp_seconds(noise.mechanism, scale)
    ratio = "not installed" if theirs is None else theirs / took
    return noise.mechanism, scale, took, DRAWS / took, peak, took / raw, ratio


def median(action: Callable[[], object]) -> float:
    return statistics.median(seconds(action) for _ in range(ROUNDS))


def peak_bytes(action: Callable[[], object]) -> int:
    """The most memory an action holds at once, its result included."""
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def opendp_seconds(mechanism: Mechanism, scale: float) -> float | None:
    """What OpenDP takes for as many draws, extrapolated from fewer."""
    try:
        import opendp.prelude as opendp  # noqa: PLC0415
    except ImportError:
        return None
    dp: Any = opendp
    dp.enable_features("contrib")
    integers = dp.vector_domain(dp.atom_domain(T=dp.i64))
    if mechanism is LAPLACE:
        law = dp.m.make_laplace(integers, dp.l1_distance(T=dp.i64), scale=scale)
    else:
        law = dp.m.make_gaussian(integers, dp.l2_distance(T=dp.f64), scale=scale)
    law([0])
    return median(lambda: law([0] * OPENDP_DRAWS)) * DRAWS / OPENDP_DRAWS


if __name__ == "__main__":
    main()
