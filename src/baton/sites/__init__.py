"""Those who carry out legs."""
