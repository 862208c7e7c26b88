"""Model folders in older or other forms, as those that the rest of edgepack reads."""
