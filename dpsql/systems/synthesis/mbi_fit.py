"""Fit of noisy tables by the package `mbi` (McKenna, Sheldon and Miklau 2019), an extra.

It solves the same problem as `dpsql.consistency.graphical_model`. Rows are sampled by our own code,
since that of `mbi` is not reproducible. The package is large, so it is imported only when needed.

It is post-processing: PRIVACY.md R67.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from dpsql.consistency.graphical_model import Fit, GraphicalModel, NoisyTable
from dpsql.model.errors import MissingExtra
from dpsql.model.ticking import tick

ITERATIONS = 5000
_STILL = 1e-6
"""Relative gain over fifty rounds below which the fit stops."""


def require_mbi() -> None:
    """Raise MissingExtra unless `mbi` is installed. Called before anything is charged."""
    if find_spec("mbi") is None:
        raise MissingExtra("A fit by mbi needs the extra: pip install 'dpsql[synth]'.")


def fitted_by_mbi(model: GraphicalModel, measured: Sequence[NoisyTable], total: float) -> Fit:
    """Fit a model as `graphical_model.fitted` does, without potentials.

    Sets `jax` to double precision and disables its compilation cache, as `mbi` requires.
    """
    import jax  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    from mbi import Domain, LinearMeasurement, WeightedQuery, estimation  # noqa: PLC0415

    domain = Domain([str(n) for n in range(len(model.sizes))], model.sizes)
    measurements = []
    for table in measured:
        weights = 1 / np.sqrt(table.variances.ravel())
        names = tuple(map(str, table.axes))
        measurements.append(
            LinearMeasurement(table.counts.ravel() * weights, names, 1.0, WeightedQuery(weights))
        )
    estimate = estimation.MirrorDescent().estimate(
        domain,
        measurements,
        known_total=total,
        iters=ITERATIONS,
        tol=_STILL,
        callback_fn=lambda _: tick(),
    )
    tables = {}
    for clique in model.cliques:
        counts = estimate.project(tuple(map(str, clique))).datavector(flatten=False)
        tables[clique] = np.maximum(np.asarray(counts, dtype=np.float64), 0.0)
    return Fit(model, {}, tables)
