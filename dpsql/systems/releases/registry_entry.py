"""The entry of a release for the public registry of deployments of differential privacy.

The fields are those of the registry's template (github.com/opendp/deployments-registry-data,
tests/good_deployments/template.yaml), tier 3.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import date
from typing import Any

from dpsql import accountants
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import NANO, Neighbours, Policy
from dpsql.systems.releases.published_tables import PublishedRelease

_RHO = "ρ"


@dataclass(frozen=True, slots=True)
class AboutRelease:
    """Facts about a release that only its owner knows."""

    title: str = ""
    curator: str = ""
    curator_type: str = ""
    description: str = ""
    intended_use: str = ""
    region: str = ""
    sector: str = ""
    people: str = ""
    justification: str = ""
    author: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the fields that are empty."""
        return tuple(each.name for each in fields(self) if not getattr(self, each.name))


def read_about(text: str) -> AboutRelease:
    """Return the facts of a TOML text. Raises ValueError for other keys, and for values that are
    no texts.

    >>> read_about('title = "Births"').title
    'Births'
    """
    document = tomllib.loads(text)
    names = {each.name for each in fields(AboutRelease)}
    for name, value in document.items():
        if name not in names or not isinstance(value, str):
            keys = ", ".join(sorted(names))
            raise ValueError(f"{name} is no text about a release. The keys are {keys}.")
    return AboutRelease(**document)


def registry_entry(
    about: AboutRelease, release: PublishedRelease, policy: Policy, today: date
) -> dict[str, Any]:
    """Return the entry as nested mappings; empty texts are left to the owner."""
    slug = re.sub(r"[^a-z0-9]+", "-", f"{about.title} {about.curator} {today.year}".lower())
    public = [table.name for table in policy.tables if not table.private]
    deployment = {
        "basic": _basic(about, today),
        "dp_variant": {
            "variant_name": _variant(release),
            "data_domain": "Tables of a relational database, linked to the privacy unit by keys.",
            "unprotected_quantities": f"Public tables, exact: {', '.join(public)}."
            if public
            else "None.",
        },
        "privacy_loss": _loss(about, release, policy),
        "deployment_model": _model(),
        "implementation": _implementation(about, release),
    }
    administrative = {
        "evidence_sources": {},
        "status": "Draft",
        "registry_authors": [about.author],
        "tier": 3,
    }
    return {
        "url_slug": slug.strip("-"),
        "deployment": deployment | {"administrative": administrative},
    }


def _variant(release: PublishedRelease) -> str:
    accountant = accountants.get(release.accountant)
    if accountant.unit == _RHO:
        return "Zero-concentrated DP"
    return "Approximate DP" if accountant.supports_selection else "Pure DP"


def _basic(about: AboutRelease, today: date) -> dict[str, Any]:
    curator = {"data_curator_name": about.curator, "data_curator_type": about.curator_type}
    return {
        "name": about.title,
        "data_curators": [curator],
        "description": about.description,
        "intended_use": about.intended_use,
        "data_product_type": "Summary statistics",
        "data_product_region": about.region,
        "data_product_sector": about.sector,
        "publication_date": today.isoformat(),
    }


def _loss(about: AboutRelease, release: PublishedRelease, policy: Policy) -> dict[str, Any]:
    change = {
        Neighbours.ADD_REMOVE: "one unit is added or removed",
        Neighbours.REPLACE: "one unit is replaced by another",
    }[policy.unit.neighbours]
    parameters: dict[str, Any] = {"epsilon": round_epsilon(release.epsilon)}
    accountant = accountants.get(release.accountant)
    if accountant.supports_selection:
        parameters["delta"] = float(release.delta)
    if accountant.unit == _RHO:
        parameters["rho"] = release.loss.amount / NANO
    return {
        "privacy_unit": policy.unit_name,
        "privacy_unit_details": f"All rows that links connect to one unit; neighbours: {change}.",
        "number_of_privacy_units": 1,
        "number_of_privacy_units_details": about.people,
        "privacy_parameters": parameters,
        "privacy_parameters_details": "The loss of all tables of this release together.",
    }


def _model() -> dict[str, Any]:
    return {
        "model_name": "Central",
        "model_name_details": "One trusted proxy reads the data; readers see noisy numbers.",
        "trust_assumptions": "The owner of the data, its database and the proxy's host.",
        "actors": "The owner, who publishes; the people in the data; readers of the tables.",
        "release_type": "One release",
        "release_type_details": "",
        "data_source_type": "Static",
        "data_source_type_details": "",
        "access_type": "Non-interactive",
        "access_type_details": "",
    }


def _implementation(about: AboutRelease, release: PublishedRelease) -> dict[str, Any]:
    return {
        "preprocessing_and_hyperparameter_tuning": "Limits of what one unit adds are declared by "
        "the policy, or found privately and charged: see methods.md.",
        "mechanisms": "Discrete Gaussian or discrete Laplace noise on integer counts and sums; "
        "choices for quantiles and private groups: see methods.md for each table.",
        "composition": f"Accountant {release.accountant}, over all tables; each measurement is "
        "charged to a chained ledger before it runs.",
        "post_processing": "Tables of the same rows are made to agree by least squares; ratios are "
        "computed from noisy numbers.",
        "justification": about.justification,
        "utility": "Each number has a 95 % interval; replicates give others.",
        "additional_information": "",
    }


def round_epsilon(epsilon: float) -> float:
    """Return an ε with three digits, rounded up.

    >>> round_epsilon(1.63794)
    1.64
    """
    text = f"{epsilon:.3g}"
    return float(text) if float(text) >= epsilon else float(f"{epsilon * 1.005:.3g}")


def yaml_text(value: Mapping[str, Any]) -> str:
    """Return nested mappings as YAML: texts are quoted as in JSON, which YAML contains.

    >>> print(yaml_text({"a": {"b": ["x"]}, "n": 1}), end="")
    a:
      b:
        - "x"
    n: 1
    """
    return "".join(f"{line}\n" for line in _yaml_lines(value))


def _yaml_lines(value: Mapping[str, Any]) -> Iterator[str]:
    for name, each in value.items():
        match each:
            case dict() if each:
                yield f"{name}:"
                yield from (f"  {line}" for line in _yaml_lines(each))
            case list() if each:
                yield f"{name}:"
                for item in each:
                    lines = [*_yaml_lines(item)] if isinstance(item, dict) else [_scalar(item)]
                    yield f"  - {lines[0]}"
                    yield from (f"    {line}" for line in lines[1:])
            case _:
                yield f"{name}: {_scalar(each)}"


def _scalar(value: Any) -> str:
    text = repr(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # YAML 1.1 takes 1e-06 for a text
    return json.dumps(value, ensure_ascii=False)
