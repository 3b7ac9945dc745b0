"""`kubectl zq`: shows zones to people with kubectl, in one screen each."""
