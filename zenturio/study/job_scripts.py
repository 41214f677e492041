"""The script that the jobs of a study would get at a place, without submitting one."""

from __future__ import annotations

from zenturio.annotate.model import Application
from zenturio.errors import InputError
from zenturio.execute.places import find_place
from zenturio.experiment import ExperimentGenerator
from zenturio.record.open import FOLDER, project_folder
from zenturio.study.place_options import PlaceOptions
from zenturio.study.point_selection import PointSelection


def job_script(application: Application, points: PointSelection, place: PlaceOptions) -> str:
    """The script of the first of *points*; empty where the place starts no jobs."""
    folder = project_folder() / FOLDER
    named = find_place(place.place, folder.absolute().parent)
    kind, options = named.load(), named.options(place.settings)
    if hasattr(kind, "preview"):
        point = next(iter(points), None) or next(iter(application.space.sample(1, 0)))
        experiment = ExperimentGenerator(application).experiments(point)[0]
        count = max(points.count, 1) * application.repeat.count
        return str(kind.preview(experiment, count, folder, options))
    try:
        return str(kind.script(folder, options)) if hasattr(kind, "script") else ""
    except InputError:  # as it is configured it starts none
        return ""
