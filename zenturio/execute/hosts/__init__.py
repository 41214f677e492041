"""Machines that one reaches over SSH, as a place: unequal, loaded, and gone at times."""
