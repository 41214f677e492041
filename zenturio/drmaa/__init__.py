"""
DRMAA 1.0 for programs that have it in their hands: jobs at any place that experiments run at.

    from zenturio import drmaa

    with drmaa.Session("hosts.toml") as session:
        template = session.createJobTemplate()
        template.remoteCommand, template.args = "./align", ["$drmaa_incr_ph$"]
        template.nativeSpecification = "--file align"
        jobs = session.runBulkJobs(template, 0, 4)
        session.synchronize(jobs)
        print([session.wait(job).exitStatus for job in jobs])

Names are those of the Python binding. It is the part that submits, waits and controls; email, DRM
information and file staging by attribute are left out.
"""

from zenturio.drmaa.errors import (
    AlreadyActiveSessionException,
    DeniedByDrmException,
    DrmaaException,
    ExitTimeoutException,
    HoldInconsistentStateException,
    InvalidArgumentException,
    InvalidAttributeValueException,
    InvalidJobException,
    NoActiveSessionException,
    ReleaseInconsistentStateException,
    ResumeInconsistentStateException,
    SuspendInconsistentStateException,
)
from zenturio.drmaa.session import JobInfo, Session
from zenturio.drmaa.template import (
    HOME_DIRECTORY,
    JOB_IDS_SESSION_ALL,
    JOB_IDS_SESSION_ANY,
    PARAMETRIC_INDEX,
    TIMEOUT_NO_WAIT,
    TIMEOUT_WAIT_FOREVER,
    WORKING_DIRECTORY,
    JobControlAction,
    JobState,
    JobSubmissionState,
    JobTemplate,
)

__all__ = [
    "HOME_DIRECTORY",
    "JOB_IDS_SESSION_ALL",
    "JOB_IDS_SESSION_ANY",
    "PARAMETRIC_INDEX",
    "TIMEOUT_NO_WAIT",
    "TIMEOUT_WAIT_FOREVER",
    "WORKING_DIRECTORY",
    "AlreadyActiveSessionException",
    "DeniedByDrmException",
    "DrmaaException",
    "ExitTimeoutException",
    "HoldInconsistentStateException",
    "InvalidArgumentException",
    "InvalidAttributeValueException",
    "InvalidJobException",
    "JobControlAction",
    "JobInfo",
    "JobState",
    "JobSubmissionState",
    "JobTemplate",
    "NoActiveSessionException",
    "ReleaseInconsistentStateException",
    "ResumeInconsistentStateException",
    "Session",
    "SuspendInconsistentStateException",
]
