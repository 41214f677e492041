"""Renderers of charts: browsers, papers and terminals. Each draws marks and knows no kinds."""
