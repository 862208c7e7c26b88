"""What comes over the network: HTTP, downloads, wheels, Debian packages."""
