"""Load generators, targets, client library and history writer."""
