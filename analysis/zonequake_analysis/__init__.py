"""PySpark jobs that judge a run folder, and the report."""
