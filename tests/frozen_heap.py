"""Imported behind all else that a server of processes has: freezes it.

A collection in a process that was forked would walk through all of it, and each page that it
touches would be copied: a quarter of a second for each data node that a test starts.
"""

import gc

gc.collect()
gc.freeze()
