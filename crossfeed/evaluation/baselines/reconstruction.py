"""Six ways to pretrain by reconstruction; each hides and rebuilds something else, then learns to forecast.

Whole rows at random (MAE style), in short stretches (LoMaR) or where most happens (EMIT); entries, rebuilt from masked
neighbours weighted by how alike their series vectors are (SimMTM); patches of several lengths, where a stretch hidden
at the coarsest is hidden at all (PatchFormer); Haar wavelet coefficients of every level (MMR). B windows, V views,
N = B * (1 + V) series or visible rows, K context rows, S stretches, L rows of a stretch or patch, P patches of one
length, F features, C sensors, D width.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, log_softmax, normalize, smooth_l1_loss, softmax

from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.network import EncodingNetwork, Features
from crossfeed.evaluation.baselines.small_networks import StepEncoder, encoder_blocks
from crossfeed.evaluation.forecaster import masked
from crossfeed.windows.windows import WindowBatch, present_mean


class PretextNetwork(EncodingNetwork):
    """Stage one minimises `pretext`; stage two trains encoder and forecasting decoder end to end."""

    has_pretext = True

    def whole_rows(self, name: str, step: int) -> int:
        """The most rows of the context that are a multiple of `step`."""
        context = self.features.shape.context
        if context < step:
            raise ConfigError(
                f"'{name}' needs a context of at least {step} rows, it has {context}.",
                remedy=f"Use a longer context, or leave {name} out.",
            )
        return context // step * step


class StepPretextNetwork(PretextNetwork):
    """A pretext over row tokens: the last row of the encoder forecasts, a linear map rebuilds rows."""

    encoder: StepEncoder

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width)
        self.encoder = StepEncoder(features, width, layers)
        self.rebuild = nn.Linear(width, features.shape.sensors)

    def steps(self, batch: WindowBatch) -> Tensor:
        """What the encoder makes of every row."""
        steps_BKD: Tensor = self.encoder(self.features.context(batch))
        return steps_BKD

    def encode(self, batch: WindowBatch) -> Tensor:
        return self.steps(batch)[:, -1]


def uniform(size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Random numbers in [0, 1) on the generator's device."""
    return torch.rand(size, generator=generator, device=generator.device)


def hidden_steps(score_BK: Tensor, count: int) -> Tensor:
    """The `count` rows of highest score in each window, as a mask."""
    chosen_BN = score_BK.topk(count, dim=1).indices
    return torch.zeros_like(score_BK, dtype=torch.bool).scatter(1, chosen_BN, True)


_RANDOM_RATIO = 0.75
_STRETCHES, _LENGTH, _STRETCH_RATIO = 4, 10, 0.8
_EVENT_RATIO = 0.3
# Latents alone could be rebuilt by making them all alike; the values keep them apart.
_VALUES = 0.5


class MaskedAutoencoder(StepPretextNetwork):
    """Three quarters of the rows are taken away, the encoder sees only the rest, a light decoder rebuilds them.

    The decoder with its mask token is used in pretraining only.
    """

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.mask_D = nn.Parameter(0.02 * torch.randn(width))
        self.position_KD = nn.Parameter(0.02 * torch.randn(features.shape.context, width))
        self.light = encoder_blocks(width, 1, dropout=0.0)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        windows, rows = batch.x_BKC.shape[:2]
        visible = max(1, round((1.0 - _RANDOM_RATIO) * rows))
        order_BK = uniform((windows, rows), generator).argsort(1)
        seen_BN1 = order_BK[:, :visible, None]
        tokens_BKD = self.encoder.tokens(self.features.context(batch))
        width = tokens_BKD.shape[-1]
        encoded_BND = self.encoder.blocks(tokens_BKD.gather(1, seen_BN1.expand(-1, -1, width)))
        all_BKD = self.mask_D.expand(windows, rows, -1).scatter(1, seen_BN1.expand(-1, -1, width), encoded_BND)
        rebuilt_BKC = self.rebuild(self.light(all_BKD + self.position_KD))
        hidden_BK1 = torch.ones_like(order_BK, dtype=torch.bool).scatter(1, seen_BN1.squeeze(-1), False)[..., None]
        return present_mean((rebuilt_BKC - batch.x_BKC).square(), batch.m_BKC & hidden_BK1)


class LocalAutoencoder(StepPretextNetwork):
    """Most rows of short stretches are hidden, and rebuilt from that stretch alone.

    Attention never leaves a stretch in pretraining; in fine-tuning it spans the whole context.
    """

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.mask_D = nn.Parameter(0.02 * torch.randn(width))
        self.length = min(_LENGTH, features.shape.context)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        windows, rows, _ = batch.x_BKC.shape
        start_BS = (uniform((windows, _STRETCHES), generator) * (rows - self.length + 1)).long()
        row_BN = (start_BS[..., None] + torch.arange(self.length, device=start_BS.device)).flatten(1)

        def stretches(values_BKX: Tensor) -> Tensor:
            taken = values_BKX.gather(1, row_BN[..., None].expand(-1, -1, values_BKX.shape[-1]))
            return torch.unflatten(taken, 1, (_STRETCHES, self.length)).flatten(0, 1)

        encoder = self.encoder
        tokens = stretches(encoder.token(self.features.context(batch)))
        score_NL = uniform((windows * _STRETCHES, self.length), generator)
        hidden = min(self.length - 1, max(1, round(_STRETCH_RATIO * self.length)))
        hidden_NL1 = hidden_steps(score_NL, hidden)[..., None]
        # Positions count from the end of the stretch, so that they mean "how long ago", as in the whole context.
        tokens = torch.where(hidden_NL1, self.mask_D, tokens) + encoder.position_KD[-self.length :]
        rebuilt_NLC = self.rebuild(encoder.blocks(tokens))
        present_NLC = stretches(batch.m_BKC.float()) > 0
        return present_mean((rebuilt_NLC - stretches(batch.x_BKC)).square(), present_NLC & hidden_NL1)


def event_score(x_BKC: Tensor, m_BKC: Tensor) -> Tensor:
    """How much each row differs from the one before, over channels present in both; the first row never changes."""
    both_BNC = m_BKC[:, 1:] & m_BKC[:, :-1]
    change_BN = (x_BKC.diff(dim=1).abs() * both_BNC).sum(-1) / both_BNC.sum(-1).clamp(min=1)
    return torch.cat([torch.zeros_like(change_BN[:, :1]), change_BN], 1)


class EventAutoencoder(StepPretextNetwork):
    """The rows in which most happens are hidden, and their latents (not only their values) are rebuilt.

    The latent predictor is used in pretraining only.
    """

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.predict = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        noise_BK = 1e-6 * uniform(tuple(batch.x_BKC.shape[:2]), generator)
        # The noise only breaks the ties of windows in which nothing happens.
        score_BK = event_score(batch.x_BKC, batch.m_BKC) + noise_BK
        hidden_BK = hidden_steps(score_BK, max(1, round(_EVENT_RATIO * score_BK.shape[1])))
        with torch.no_grad():
            target_BKD = layer_norm(self.steps(batch), (self.rebuild.in_features,))
        steps_BKD = self.steps(masked(batch, batch.m_BKC & ~hidden_BK[..., None]))
        predicted_BKD = layer_norm(self.predict(steps_BKD), (self.rebuild.in_features,))
        latent_BK = smooth_l1_loss(predicted_BKD, target_BKD, reduction="none").mean(-1)
        values_BKC = (self.rebuild(steps_BKD) - batch.x_BKC).square()
        values = present_mean(values_BKC, batch.m_BKC & hidden_BK[..., None])
        return present_mean(latent_BK, hidden_BK) + _VALUES * values


_VIEWS, _ENTRY_RATIO, _MEAN_RUN = 2, 0.5, 3.0
_TEMPERATURE, _CONTRAST = 0.1, 0.1


def geometric_runs(size: tuple[int, int, int], generator: torch.Generator) -> Tensor:
    """Hidden runs of geometric length (mean 3) that hide half of each channel: a two-state chain along time."""
    windows, rows, sensors = size
    leave_hidden = 1.0 / _MEAN_RUN
    leave_seen = leave_hidden * _ENTRY_RATIO / (1.0 - _ENTRY_RATIO)
    draw_KBC = uniform((rows, windows, sensors), generator)
    states = [draw_KBC[0] < _ENTRY_RATIO]
    for row in range(1, rows):
        change_BC = draw_KBC[row] < torch.where(states[-1], leave_hidden, leave_seen)
        states.append(states[-1] ^ change_BC)
    return torch.stack(states, 1)


class SimMtm(StepPretextNetwork):
    """The projector of the series vectors is used in pretraining only."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.project = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        windows, rows, sensors = batch.x_BKC.shape
        views = [
            masked(batch, batch.m_BKC & ~geometric_runs((windows, rows, sensors), generator)) for _ in range(_VIEWS)
        ]
        steps_NKD = torch.cat([self.steps(view) for view in (batch, *views)])
        series_ND = normalize(self.project(steps_NKD.mean(1)), dim=-1)
        itself_NN = torch.eye(len(series_ND), dtype=torch.bool, device=series_ND.device)
        alike_NN = (series_ND @ series_ND.T / _TEMPERATURE).masked_fill(itself_NN, -torch.inf)
        weight_BN = softmax(alike_NN[:windows], dim=-1)
        rebuilt_BKC = self.rebuild(torch.einsum("bn,nkd->bkd", weight_BN, steps_NKD))
        window_N = torch.arange(windows, device=series_ND.device).repeat(1 + _VIEWS)
        relative_NN = (window_N[:, None] == window_N) & ~itself_NN
        contrast = -log_softmax(alike_NN, dim=-1)[relative_NN].mean()
        return present_mean((rebuilt_BKC - batch.x_BKC).square(), batch.m_BKC) + _CONTRAST * contrast


_PATCH_LENGTHS = (2, 4, 8)
_PATCH_RATIO = 0.4


class PatchFormer(PretextNetwork):
    """Tokens of all lengths attend to each other; the latest patch of each length forecasts."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width)
        self.rows = self.whole_rows("patchformer", _PATCH_LENGTHS[-1])
        sensors = features.shape.sensors
        self.enter = nn.ModuleList(nn.Linear(length * features.context_width, width) for length in _PATCH_LENGTHS)
        self.position = nn.ParameterList(
            nn.Parameter(0.02 * torch.randn(self.rows // length, width)) for length in _PATCH_LENGTHS
        )
        self.mask_D = nn.Parameter(0.02 * torch.randn(width))
        self.blocks = encoder_blocks(width, layers)
        self.rebuild = nn.ModuleList(nn.Linear(width, length * sensors) for length in _PATCH_LENGTHS)

    def encode(self, batch: WindowBatch) -> Tensor:
        latest = [part_BPD[:, -1] for part_BPD in self._tokens(batch, None)]
        return torch.stack(latest).mean(0)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        coarse = self.rows // _PATCH_LENGTHS[-1]
        score_BP = uniform((len(batch.x_BKC), coarse), generator)
        hidden_BP = hidden_steps(score_BP, max(1, round(_PATCH_RATIO * coarse)))
        hidden_BK = hidden_BP.repeat_interleave(_PATCH_LENGTHS[-1], 1)
        x_BKC, m_BKC = batch.x_BKC[:, -self.rows :], batch.m_BKC[:, -self.rows :]
        losses = []
        for part_BPD, rebuild in zip(self._tokens(batch, hidden_BK), self.rebuild, strict=True):
            rebuilt_BKC = rebuild(part_BPD).view_as(x_BKC)
            losses.append(present_mean((rebuilt_BKC - x_BKC).square(), m_BKC & hidden_BK[..., None]))
        return torch.stack(losses).mean()

    def _tokens(self, batch: WindowBatch, hidden_BK: Tensor | None) -> tuple[Tensor, ...]:
        """Encoded tokens of each length; hidden patches enter as the mask token."""
        features_BKF = self.features.context(batch)[:, -self.rows :]
        tokens = []
        for length, enter, position_PD in zip(_PATCH_LENGTHS, self.enter, self.position, strict=True):
            part_BPD = enter(torch.unflatten(features_BKF, 1, (-1, length)).flatten(2))
            if hidden_BK is not None:
                part_BPD = torch.where(hidden_BK[:, ::length, None], self.mask_D, part_BPD)
            tokens.append(part_BPD + position_PD)
        encoded: Tensor = self.blocks(torch.cat(tokens, 1))
        return torch.split(encoded, [self.rows // length for length in _PATCH_LENGTHS], dim=1)


_BAND_LEVELS = 3
_BAND_RATIO = 0.5


def haar(x_BKC: Tensor) -> list[Tensor]:
    """Bands of an orthonormal Haar transform along time: details from fine to coarse, then the coarsest average."""
    bands, smooth = [], x_BKC
    for _ in range(_BAND_LEVELS):
        even, odd = smooth[:, 0::2], smooth[:, 1::2]
        bands.append((even - odd) / math.sqrt(2.0))
        smooth = (even + odd) / math.sqrt(2.0)
    return [*bands, smooth]


def inverse_haar(bands: list[Tensor]) -> Tensor:
    """The series whose bands these are."""
    smooth = bands[-1]
    for detail in reversed(bands[:-1]):
        pair = torch.stack([smooth + detail, smooth - detail], 2) / math.sqrt(2.0)
        smooth = pair.flatten(1, 2)
    return smooth


def complete(m_BKC: Tensor) -> list[Tensor]:
    """For each band, the coefficients all of whose rows are present."""
    bands, whole = [], m_BKC
    for _ in range(_BAND_LEVELS):
        whole = whole[:, 0::2] & whole[:, 1::2]
        bands.append(whole)
    return [*bands, whole]


class WaveletAutoencoder(StepPretextNetwork):
    """Bands count equally, so that the fine ones are not drowned by the level of the window."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.rows = self.whole_rows("mmr", 2**_BAND_LEVELS)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        x_BKC, m_BKC = batch.x_BKC[:, -self.rows :], batch.m_BKC[:, -self.rows :]
        bands = haar(x_BKC)
        hidden = [uniform(tuple(band.shape), generator) < _BAND_RATIO for band in bands]
        left = [torch.where(away, 0.0, band) for away, band in zip(hidden, bands, strict=True)]
        corrupted_BKC = batch.x_BKC.clone()
        corrupted_BKC[:, -self.rows :] = inverse_haar(left) * m_BKC.to(x_BKC.dtype)
        steps_BKD = self.steps(replace(batch, x_BKC=corrupted_BKC))
        rebuilt = haar(self.rebuild(steps_BKD)[:, -self.rows :])
        losses = [
            present_mean((guess - band).square(), away & known)
            for guess, band, away, known in zip(rebuilt, bands, hidden, complete(m_BKC), strict=True)
        ]
        return torch.stack(losses).mean()
