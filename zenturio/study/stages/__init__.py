"""Stages: studies that wait for experiments of other studies."""
