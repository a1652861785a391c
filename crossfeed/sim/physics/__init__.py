"""A physics simulator of milling machines: spindle, axes, cutting, heat, DC link.

Reading order: parameters, inputs, cutting, drives, spindle, dynamics, rollout; then jobs and production.
"""
