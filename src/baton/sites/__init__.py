"""Sites of their own: a visit to one client, and a round whose clients are far away."""
