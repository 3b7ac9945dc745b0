"""`kubectl zq`: zones for people who have kubectl, in one screen each."""
