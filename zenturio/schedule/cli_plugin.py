"""The verbs that this package adds to ``zen``: an entry point of ``zenturio.applications``.

Scheduling is an application beside parameter studies. The rest of zenturio finds it here, and works
without it: a test removes the folder and its entry points.
"""

TITLE = "Workflows"

VERBS = {
    "workflow": ("workflow", "Show, convert, generate and run workflows."),
    "schedule": ("schedule", "Plan which task of a workflow runs where and when."),
    "simulate": ("simulate", "Simulate a workflow on machines that change."),
    "algorithms": ("schedule", "List the scheduling algorithms and their settings."),
    "warm": ("schedule", "Compile the scheduling algorithms before their first use."),
}
"""Each verb: the module of ``zenturio.cli`` that holds it, and its line in ``zen --help``."""
