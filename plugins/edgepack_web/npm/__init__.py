"""What Node and npm are to web bundles: a host to try them on, and a place to fetch from."""
