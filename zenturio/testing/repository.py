"""What every repository must do. Subclass it and give it a ``repository`` fixture, empty."""

from zenturio.testing.experiments import experiment, outcome, same
from zenturio.testing.repository_claims import Claims, Files, Sharing
from zenturio.testing.repository_equated_results import EquatedResultsContract
from zenturio.testing.repository_machines import Machines
from zenturio.testing.repository_measurement_rounds import RoundsContract
from zenturio.testing.repository_outcomes import Outcomes
from zenturio.testing.repository_queue import Queue
from zenturio.testing.repository_retries import RetriedFailuresContract
from zenturio.testing.repository_studies import Leases, Studies

__all__ = ["RepositoryContract", "experiment", "outcome", "same"]


class RepositoryContract(
    Studies,
    Leases,
    Claims,
    Outcomes,
    Machines,
    RoundsContract,
    Files,
    Sharing,
    RetriedFailuresContract,
    EquatedResultsContract,
    Queue,
):
    """Everything that a repository promises."""
