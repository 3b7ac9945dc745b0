"""Screens: per check, which keys of a bucket its exact form could find something at.

A screen is fast, over whole columns, and sound: a key that it passes is one where the exact check
finds nothing. It may flag too much; the exact check then finds nothing there. The screens of the
claimed order and of the black box share no logic, as the checks themselves don't.
"""
