"""Our own store as a target: an installed release, whose pools a run sizes."""
