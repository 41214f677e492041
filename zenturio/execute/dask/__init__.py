"""A cluster of Dask as a place; Dask itself is imported where a cluster is used."""
