"""`zonequake analyze --in-cluster`: the analysis as pods beside the release."""
