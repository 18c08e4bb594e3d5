"""What can be measured of a setting beside its metrics: client drift, what smashed data give away."""
