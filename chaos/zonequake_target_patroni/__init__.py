"""PostgreSQL with Patroni as a target: streaming replication, with a leader by Kubernetes."""
