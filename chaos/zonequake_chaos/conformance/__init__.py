"""The conformance suite of a target: `zonequake target check`."""
