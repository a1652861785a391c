"""What a forecast is: one family of distributions for losses, metrics, intervals, rollouts and reports."""

from crossfeed.distribution.distribution import Distribution
from crossfeed.distribution.gaussian import Gaussian
from crossfeed.distribution.mixture import Mixture
from crossfeed.distribution.point import Point
from crossfeed.distribution.quantiles import Quantiles

__all__ = ["Distribution", "Gaussian", "Mixture", "Point", "Quantiles"]
