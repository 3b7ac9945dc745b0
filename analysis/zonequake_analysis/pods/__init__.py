"""Driver and executors as pods: the commands of the analysis's image, and why a pod waits."""
