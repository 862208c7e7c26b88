"""What a finished library is made of, and which operator requires it."""
