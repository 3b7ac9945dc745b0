"""The clusters that chaos runs on: an embedded node of one's own, or any kubeconfig context."""
