"""The paper's network on NVIDIA GPUs: the same numbers by kernels on present tokens; the plain modules are the twin."""
