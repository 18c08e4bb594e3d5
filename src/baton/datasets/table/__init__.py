"""Tables: one file, or one file a site, of a person a row and a fact a column."""
