"""Kinds of charts, and the queries that they are made from."""
