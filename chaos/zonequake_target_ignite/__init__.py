"""Apache Ignite 3 as a target."""
