"""A discrete-event simulator of workflows on machines whose load changes."""
