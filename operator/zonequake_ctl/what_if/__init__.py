"""What would the operator do? Its own rules over a file, in virtual time, without a cluster."""
