"""State that a server serves from, and that it can replace without losing clients."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from dpsql.engines.pool import EnginePool
from dpsql.interfaces.amounts import loss_text
from dpsql.interfaces.pgwire.answers import CatalogueAnswers, may_ask
from dpsql.interfaces.pgwire.bearer_tokens import TokenLogin, TokenRefused, verifier_of
from dpsql.interfaces.pgwire.login_file import ByCertificate, Users, Verifier, WithoutPassword
from dpsql.interfaces.pgwire.pacing import Pacer, Write
from dpsql.model.dataclass import dataclass
from dpsql.owner.reminders import unnamed_budgets
from dpsql.policy.draft import ServerSettings as Limits
from dpsql.preparation.bound_policy import facts_lapsed, store_unused

if TYPE_CHECKING:
    from dpsql.proxy import Proxy

MakeCatalogue: TypeAlias = Callable[..., CatalogueAnswers]
"""Function that makes the catalogue of an analyst with these settings, and of an agent's chain."""


def engine_load(proxy: Proxy) -> dict[str, int]:
    """Return the load of a pool of engines; empty for a single engine."""
    engine = proxy.vault.engine
    return engine.load() if isinstance(engine, EnginePool) else {}


@dataclass(slots=True, eq=False)
class Present:
    """A policy with its data, its users, and the TLS settings.

    `users` returns the users, read again for each login. With `context` clients may use TLS, and
    bind their login to it by `binding`, the hash of the certificate. `running` counts open
    requests: a state that has `ended` is closed only after them.
    """

    proxy: Proxy
    catalogue: MakeCatalogue
    users: Callable[[], Users]
    limits: Limits
    context: ssl.SSLContext | None = None
    binding: bytes | None = None
    running: int = 0
    ended: bool = False

    def pacer(self, write: Write) -> Pacer:
        """Return the grid of time steps for this ledger and these limits."""
        limits, seconds = self.limits, self.proxy.policy.limits.statement_seconds
        return Pacer(self.proxy.ledger, limits.answer_seconds, limits.max_late, seconds, write)

    def warnings(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield warnings for the owner: events of the log and their fields.

        Raises `LedgerError`.
        """
        proxy = self.proxy
        for pot in unnamed_budgets(proxy.ledger, proxy.policy.budgets):
            spent = loss_text(pot.spent, pot.accountant)
            yield "unnamed_budget", {"budget": pot.budget, "spent": spent}
        if facts_lapsed(proxy.policy, proxy.ledger):
            fix = "Plans and prices do without recorded facts until: dpsql check --record"
            yield "facts_lapsed", {"fix": fix}
        if self._has_no_user():
            name = proxy.policy.analysts[0][0]
            yield "no_user", {"fix": f"Nobody can log in until: dpsql user add {name}"}
        if store_unused(proxy.policy):
            yield "store_unused", {"fix": "Plans read the data as they are until: dpsql prepare"}

    def _has_no_user(self) -> bool:
        """Test whether the users' file is readable and empty."""
        try:
            return not self.users() and self.limits.oidc is None
        except (OSError, ValueError):  # the server's watch tells of it
            return False

    def gauges(self) -> list[tuple[str, str, float]]:
        """Return the used share of each budget, all spending, and the load of the engine.

        Spending never falls, unless another ledger was begun or restored. Raises `LedgerError`.
        """
        used = [
            (
                "budget_used_ratio",
                f'budget="{label(pot.name)}"',
                (limit.amount - spent.rest_of(limit)) / max(1, limit.amount),
            )
            for pot, spent, limit in self.proxy.budgets()
        ]
        load = engine_load(self.proxy)
        spent = ("ledger_spent", "", self.proxy.ledger.spent(None).amount / 1e9)
        return [
            *used,
            spent,
            *((f"engine_{name}", "", float(value)) for name, value in load.items()),
        ]

    def reads_ledger(self, name: str) -> bool:
        """Test whether `credential` reads the ledger: it holds the delegations of agents."""
        return self.proxy.policy.budget_of(name) is None

    def credential(self, users: Users, name: str) -> Verifier | ByCertificate | None:
        """Return the login method of a user, or None if it may not log in."""
        user = users.get(name)
        if user is None or user.disabled or not may_ask(self.proxy, name):
            return None
        return None if isinstance(user.credential, WithoutPassword) else user.credential

    def token_login(self, users: Users, token: str) -> TokenLogin:
        """Return the login of a token (SECURITY.md S34). Raises `TokenRefused`."""
        settings = self.limits.oidc
        login = None if settings is None else verifier_of(settings).verify(token)
        if login is None or not self.admits(users, login):
            raise TokenRefused
        return login

    def admits(self, users: Users, login: TokenLogin) -> bool:
        """Test whether a login by a token counts now: it has not ended, and its subject may ask.

        The token must claim each role that the policy gives to the analyst.
        """
        settings, user, policy = self.limits.oidc, users.get(login.analyst), self.proxy.policy
        if settings is None or login.issuer != settings.issuer or login.has_ended:
            return False
        roles = {role.name for role in policy.roles if login.analyst in role.analysts}
        return (
            (login.subject, login.analyst) in settings.subjects
            and not (user is not None and user.disabled)
            and (login.roles is None or roles <= login.roles)
            and may_ask(self.proxy, login.analyst)
        )

    @property
    def over(self) -> bool:
        """True if the state is no longer needed."""
        return self.ended and not self.running


def label(text: str) -> str:
    """Return the value of a label, escaped for Prometheus."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
