"""The harness: command line, plan, parent runner, worker processes, measurement, sensors, environment."""

__version__ = "0.1.0"
