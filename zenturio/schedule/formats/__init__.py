"""Readers and writers of workflow, platform and plan files."""
