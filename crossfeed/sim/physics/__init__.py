"""A physics simulator of milling machines: spindle, axes, cutting, heat, DC link, and the logs they leave behind.

Reading order: parameters, inputs, cutting, spindle, axes, heat, dynamics, state, rollout; then the exporters.
"""
