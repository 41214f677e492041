"""Renderers of charts: browsers, papers and terminals. They draw marks of any kind of chart."""
