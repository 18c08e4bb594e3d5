"""Lanes trained in this process: program, sites, rounds, the loop, metrics, memory."""
