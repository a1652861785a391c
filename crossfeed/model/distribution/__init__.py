"""What a forecast is: one family of distributions for losses, metrics, intervals, rollouts and reports."""

from crossfeed.model.distribution.distribution import Distribution, Gaussian, Point
from crossfeed.model.distribution.mixture import Mixture, Quantiles

__all__ = ["Distribution", "Gaussian", "Mixture", "Point", "Quantiles"]
