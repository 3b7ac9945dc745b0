"""pysyncobj as a target: a small store on the Raft library of that name."""
