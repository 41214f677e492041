"""
What DRMAA calls an error, as errors of this package.

* DrmaaException (ZenError)
  + NoActiveSessionException, AlreadyActiveSessionException
  + InvalidJobException           no such job, or somebody has waited for it already
  + ExitTimeoutException          the time to wait is over, the job is not
  + InvalidAttributeValueException, InvalidArgumentException
  + DeniedByDrmException          the place cannot do that
  + HoldInconsistentStateException, ReleaseInconsistentStateException,
    SuspendInconsistentStateException, ResumeInconsistentStateException
"""

from __future__ import annotations

from zenturio.errors import ZenError


class DrmaaException(ZenError):
    """Base of what the functions of DRMAA raise."""

    exit_code = 4


class NoActiveSessionException(DrmaaException):
    """There is no session, or it has ended."""


class AlreadyActiveSessionException(DrmaaException):
    """The session was begun already."""


class InvalidJobException(DrmaaException):
    """No job of this session has that name, or its result was already taken by a wait."""


class ExitTimeoutException(DrmaaException):
    """The time to wait is over, and the job is not."""


class InvalidAttributeValueException(DrmaaException):
    """A job template says what cannot be."""


class InvalidArgumentException(DrmaaException):
    """A function was called with what it cannot take."""


class DeniedByDrmException(DrmaaException):
    """The place does not support the request."""


class HoldInconsistentStateException(DrmaaException):
    """A job that has begun cannot be held."""


class ReleaseInconsistentStateException(DrmaaException):
    """A job that is not held cannot be released."""


class SuspendInconsistentStateException(DrmaaException):
    """A job that does not run cannot be suspended."""


class ResumeInconsistentStateException(DrmaaException):
    """A job that is not suspended cannot be resumed."""
