"""What the paper says, item by item, in its own words."""
