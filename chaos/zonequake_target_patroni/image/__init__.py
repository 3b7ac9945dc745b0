"""The part of the target that its image holds: a member's start, and the client."""
