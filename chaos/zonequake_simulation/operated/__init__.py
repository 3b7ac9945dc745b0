"""The real operator in virtual time: its own code over a simulated API server, pods and nodes."""
