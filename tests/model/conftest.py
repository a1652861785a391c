"""One thread: the toy models are far too small to share."""

import torch

torch.set_num_threads(1)
