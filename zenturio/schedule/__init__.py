"""Workflows on machines: models, formats, simulators, and the algorithms that plan them."""
