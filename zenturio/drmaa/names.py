"""The constants of DRMAA 1.0, as its Python binding has them."""

from __future__ import annotations


class JobState:
    """What ``jobStatus`` answers."""

    UNDETERMINED = "undetermined"
    QUEUED_ACTIVE = "queued_active"
    USER_ON_HOLD = "user_on_hold"
    RUNNING = "running"
    USER_SUSPENDED = "user_suspended"
    DONE = "done"
    FAILED = "failed"


class JobControlAction:
    """What ``control`` can do."""

    SUSPEND = "suspend"
    RESUME = "resume"
    HOLD = "hold"
    RELEASE = "release"
    TERMINATE = "terminate"


class JobSubmissionState:
    """How a job begins."""

    ACTIVE_STATE = "active"
    HOLD_STATE = "hold"


JOB_IDS_SESSION_ANY = "DRMAA_JOB_IDS_SESSION_ANY"
JOB_IDS_SESSION_ALL = "DRMAA_JOB_IDS_SESSION_ALL"
TIMEOUT_WAIT_FOREVER = -1
TIMEOUT_NO_WAIT = 0
HOME_DIRECTORY = "$drmaa_hd_ph$"
WORKING_DIRECTORY = "$drmaa_wd_ph$"
PARAMETRIC_INDEX = "$drmaa_incr_ph$"
