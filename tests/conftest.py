"""One hypothesis profile for all tests: the same examples every time, no clock. One thread: see below."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small products gain nothing from more, and crawl on a busy machine

from hypothesis import HealthCheck, settings

settings.register_profile("baton", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("baton")
