"""Baton on NVIDIA FLARE: kits with certificates, processes, jobs, and its way to carry our frames."""
