"""What a build is made of: the order, its steps, what comes of it."""
