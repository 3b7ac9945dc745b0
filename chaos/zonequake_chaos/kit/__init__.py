"""The target kit: the parts that a system under test consists of, and what finds it."""
