"""Screens: for each check, the keys of a bucket at which its exact form could find something.

A screen is fast, over whole columns, and sound: the exact check finds nothing at a key that the
screen passes. It may flag too much; the exact check then finds nothing there. The screens of the
claimed order and of the black box share no logic, just as the checks themselves share none.
"""
