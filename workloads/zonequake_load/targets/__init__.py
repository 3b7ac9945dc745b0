"""The systems that can be put under load."""
