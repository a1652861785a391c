"""Speeds along the path: limits of each leg, speeds at the corners, and trapezoidal profiles between them."""

from dataclasses import dataclass

import numpy as np

from crossfeed.programs.legs import LegKind, Legs
from crossfeed.programs.limits import MotionLimits


@dataclass(frozen=True)
class SpeedSegments:
    """Stretches of constant acceleration along a leg, in order of time; speeds in mm/s (deg/s while turning)."""

    leg: np.ndarray
    seconds: np.ndarray
    distance: np.ndarray  # path distance inside the leg at the start of the segment
    speed: np.ndarray
    acceleration: np.ndarray


def leg_limits(
    legs: Legs, limits: MotionLimits, rapid_factor: float, feed_factor: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The highest speed (mm/s) and acceleration (mm/s^2) along each leg that no axis objects to."""
    axis_speed = np.array(limits.rapid) / 60.0
    axis_acceleration = np.array(limits.acceleration)
    slope = np.abs(legs.unit)
    amplitude = np.sqrt(legs.across**2 + legs.along**2)
    around = np.divide(legs.radius * legs.sweep, legs.length, out=np.zeros(len(legs)), where=legs.is_arc)
    climb = np.divide(np.abs(legs.rise), legs.length[:, None], out=np.zeros_like(legs.rise), where=legs.is_arc[:, None])
    slope = np.where(legs.is_arc[:, None], amplitude * around[:, None] + climb, slope)
    turn = np.abs(legs.rotary)
    speed = np.minimum(_allowed(axis_speed, slope), _allowed(np.array(limits.rotary_speed) / 60.0, turn))
    acceleration = np.minimum(_allowed(axis_acceleration, slope), _allowed(np.array(limits.rotary_acceleration), turn))
    # On an arc the push along the path and the push towards the center share what the axes can give.
    acceleration = np.where(legs.is_arc, acceleration / np.sqrt(2.0), acceleration)
    inward = _allowed(axis_acceleration, amplitude) / np.sqrt(2.0)
    curvature = np.divide(legs.radius * legs.sweep**2, legs.length**2, out=np.zeros(len(legs)), where=legs.is_arc)
    with np.errstate(divide="ignore"):
        speed = np.where(legs.is_arc, np.minimum(speed, np.sqrt(inward / curvature)), speed)
    is_rapid = ~np.isfinite(legs.feed)
    speed = np.where(is_rapid, speed * min(rapid_factor, 1.0), np.minimum(speed, legs.feed / 60.0 * feed_factor))
    return speed, acceleration


def _allowed(limit: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The path quantity at which the first axis reaches its limit; infinite where no axis takes part."""
    ratio = np.full(share.shape, np.inf)
    np.divide(np.broadcast_to(limit, share.shape), share, out=ratio, where=share > 1e-12)
    return np.asarray(ratio.min(axis=1))


def corner_speeds(legs: Legs, speed: np.ndarray, limits: MotionLimits) -> np.ndarray:
    """The highest speed at which each corner may be taken, N + 1 values; 0 at the ends and wherever the axes must stop.

    A corner is rounded by the circle that stays within the corner tolerance and uses at most half of either leg (legs
    shorter than the tolerance may be cut across), and is passed no faster than the weakest axis can be pushed around
    that circle.
    """
    count = len(legs)
    corners = np.zeros(count + 1)
    if count < 2:
        return corners
    first, second = np.arange(count - 1), np.arange(1, count)
    exit_direction = legs.direction(first, legs.length[first])
    entry_direction = legs.direction(second, np.zeros(count - 1))
    cosine = np.clip(np.einsum("ij,ij->i", exit_direction, entry_direction), -1.0, 1.0)
    half = np.arccos(cosine) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        by_tolerance = limits.corner_tolerance * np.cos(half) / (1.0 - np.cos(half))
        room = np.maximum(np.minimum(legs.length[first], legs.length[second]) / 2.0, limits.corner_tolerance)
        by_length = room / np.tan(half)
        rounding = np.minimum(by_tolerance, by_length)
        allowed = np.sqrt(min(limits.acceleration) * np.maximum(rounding, 0.0))
    allowed = np.where(half < 1e-9, np.inf, allowed)
    allowed = np.minimum(allowed, np.minimum(speed[first], speed[second]))
    moving = (legs.kind == LegKind.RAPID) | (legs.kind == LegKind.FEED)
    turning = np.any(legs.rotary != 0.0, axis=1)
    through = moving[first] & moving[second] & ~legs.exact_stop[first] & (turning[first] == turning[second])
    corners[1:-1] = np.where(through, allowed, 0.0)
    return corners


def look_ahead(corners: np.ndarray, length: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
    """Lower the corner speeds until each leg can be braked and sped up within its length."""
    reach = (2.0 * np.where(length > 0.0, acceleration, 0.0) * length).tolist()
    squares = (corners**2).tolist()
    for index in range(len(reach) - 1, -1, -1):
        squares[index] = min(squares[index], squares[index + 1] + reach[index])
    for index in range(len(reach)):
        squares[index + 1] = min(squares[index + 1], squares[index] + reach[index])
    return np.asarray(np.sqrt(squares))


def trapezoids(
    legs: Legs, speed: np.ndarray, acceleration: np.ndarray, corners: np.ndarray, seconds: np.ndarray
) -> SpeedSegments:
    """Speed up, hold, brake: up to three segments per moving leg, one per standing leg."""
    count = len(legs)
    standing = legs.kind == LegKind.STANDING
    entry, leave = corners[:-1], corners[1:]
    safe_acceleration = np.where(standing, 1.0, acceleration)
    peak = np.sqrt((2.0 * safe_acceleration * legs.length + entry**2 + leave**2) / 2.0)
    peak = np.maximum(np.minimum(peak, speed), np.maximum(entry, leave))
    gain, loss = (peak - entry) / safe_acceleration, (peak - leave) / safe_acceleration
    up, down = (entry + peak) / 2.0 * gain, (leave + peak) / 2.0 * loss
    with np.errstate(divide="ignore", invalid="ignore"):
        hold = np.where(standing, seconds, np.maximum(legs.length - up - down, 0.0) / peak)
    zero = np.zeros(count)
    push = np.where(standing, 0.0, acceleration)
    time = np.stack([np.where(standing, 0.0, gain), hold, np.where(standing, 0.0, loss)], axis=1).ravel()
    kept = time > 0.0
    return SpeedSegments(
        leg=np.repeat(np.arange(count), 3)[kept],
        seconds=time[kept],
        distance=np.stack([zero, up, np.maximum(legs.length - down, 0.0)], axis=1).ravel()[kept],
        speed=np.stack([entry, np.where(standing, 0.0, peak), peak], axis=1).ravel()[kept],
        acceleration=np.stack([push, zero, -push], axis=1).ravel()[kept],
    )
