"""The kinds of systems under test that come with the harness."""
