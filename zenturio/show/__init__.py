"""Charts, reports, notebooks and the web portal.

A chart is described once, as plain values; renderers draw it for browsers, papers and terminals.
"""
