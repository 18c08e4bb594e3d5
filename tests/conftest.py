"""One hypothesis profile for all tests: the same examples every time, no clock."""

from hypothesis import HealthCheck, settings

settings.register_profile("baton", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("baton")
