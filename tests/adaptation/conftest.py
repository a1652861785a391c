"""The trained run of the evaluation tests."""

from tests.evaluation.conftest import trained_run

__all__ = ["trained_run"]
