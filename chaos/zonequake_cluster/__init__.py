"""The clusters that chaos runs on: an embedded node, or any kubeconfig context."""
