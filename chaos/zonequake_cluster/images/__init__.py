"""Container images without Docker and without a registry: mmdebstrap, buildah, OCI archives."""
