"""Masking of secrets in the output of experiments, before it is stored.

Experiments inherit the environment of their driver, and print what they like. Known are the
passwords of the database and the values of variables that are named like secrets; what an
experiment knows from elsewhere, ``zen redact`` removes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache

from zenturio.errors import InputError
from zenturio.experiment.experiment import Log, Outcome
from zenturio.record.secret import Secret
from zenturio.safe_text import secrets_of_environment


def mask_outcomes(
    outcomes: Iterable[Outcome], database_secrets: tuple[str, ...]
) -> Iterable[Outcome]:
    """Return *outcomes* with asterisks for secrets in their output and causes.

    The secrets are prepared once for a process; an outcome without one is passed on as it is.
    """
    secrets = _known_secrets((*database_secrets, *secrets_of_environment()))
    return (_masked(outcome, secrets) for outcome in outcomes) if secrets else outcomes


@cache
def _known_secrets(texts: tuple[str, ...]) -> tuple[Secret, ...]:
    secrets = []
    # The longest first: the password may begin a token, whose end would stay readable then.
    for text in sorted(set(texts), key=lambda text: (-len(text), text)):
        # A short one would be masked in words, a number in numbers: TOKENS=100000 is no secret.
        with suppress(InputError):
            if not (secret := Secret(text)).numbers:
                secrets.append(secret)
    return tuple(secrets)


def _masked(outcome: Outcome, secrets: tuple[Secret, ...]) -> Outcome:
    for secret in secrets:
        stdout, stderr = _masked_log(outcome.stdout, secret), _masked_log(outcome.stderr, secret)
        cause = secret.text(outcome.cause) if outcome.cause else outcome.cause
        if (stdout, stderr, cause) != (outcome.stdout, outcome.stderr, outcome.cause):
            outcome = replace(outcome, stdout=stdout, stderr=stderr, cause=cause)
    return outcome


def _masked_log(log: Log, secret: Secret) -> Log:
    # The cut between head and tail may go through a secret; else looking is faster than replacing.
    if log.tail or secret.is_in(log.head):
        return Log(*secret.log(log.head, log.tail, log.size))
    return log
