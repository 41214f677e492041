"""All that is particular to an operating system; nothing else names what only one of them has.

Hosts get most of it, too: only the standard library of Python 3.9 is used there.
"""
