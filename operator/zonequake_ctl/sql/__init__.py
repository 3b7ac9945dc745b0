"""The documents' SQL over resources: text → statements → changes of resources or rows.

parser    text to statements; errors with line, column and what was expected
names     SQL names to names of resources
translate a statement, given the resources there are, to changes, rows or a refusal
views     the rows of DESCRIBE and SELECT

`zonequake_ctl.sql_command` reads the resources, carries out the changes, and prints.
"""
