"""Where experiments run; launchers start quickly: they import modules of this package alone."""
