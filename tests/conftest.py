"""One hypothesis profile for all tests: the same examples every time, no clock. One thread: see below."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small products gain nothing from more, and crawl on a busy machine

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("baton", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("baton")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker here, not in pyproject.toml, so that these tests run over any tree they are laid on."""
    config.addinivalue_line("markers", "trust: a promise that was once broken; all of them take at most 4 minutes")
