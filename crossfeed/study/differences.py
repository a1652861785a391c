"""Every difference between the paper, its authors' public code and this package that no table of settings shows.

The rows are data: docs/method.md holds their rendering between two marks, and each has a test named after it in
tests/study/test_differences.py that runs the code. `python -m crossfeed.study.differences docs/method.md` renders anew.
"""

import sys
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

BEGIN, END = "<!-- differences: begin -->", "<!-- differences: end -->"
HEADS = ("item", "paper", "its authors' code", "`paper` here", "`mended` and `crossfeed`", "where")


@dataclass(frozen=True, slots=True)
class Difference:
    """One row: what is said, what the authors run, what both protocols do; `where` is the name that does it."""

    item: str
    paper: str
    authors_code: str
    under_paper: str
    under_crossfeed: str
    where: str


DIFFERENCES = (
    Difference(
        item="ingest rule",
        paper="not said",
        authors_code="bins [t, t+1), sensor mean, last command; cut where `part` or the cycle count breaks",
        under_paper="the same; tables made by another rule are refused",
        under_crossfeed="any table; by default bins (t-1, t] and the time-weighted mean command",
        where="crossfeed.ingest.resample.Resampling",
    ),
    Difference(
        item="rows from the future",
        paper="not said",
        authors_code="unlimited two-way interpolation of sensors and back-fill of commands, marked as measured",
        under_paper="the same, or 29,785 source rows would not give 26,879 windows: counted in the manifest, and the "
        "audit names it as a leak",
        under_crossfeed="never: the last value is carried for 2 s at most, then the channel is absent",
        where="crossfeed.ingest.resample.Resampling",
    ),
    Difference(
        item="unit audit",
        paper="three mismatches found and corrected",
        authors_code="the audit prints and goes on",
        under_paper="a violation ends `crossfeed audit` with exit code 1 and names the likely factor",
        under_crossfeed="the same",
        where="crossfeed.audits.units.check_units",
    ),
    Difference(
        item="robust floor",
        paper="no floor: the interquartile range of a resting channel is near zero",
        authors_code="no floor",
        under_paper="no floor in the two robust candidates",
        under_crossfeed="at least 0.05 standard deviations",
        where="crossfeed.windows.normalise.Normaliser.fit",
    ),
    Difference(
        item="block masks",
        paper="runs of 2 to 12 steps",
        authors_code="runs that may overlap",
        under_paper="separate runs of 2 to 12 steps inside one channel",
        under_crossfeed="the same",
        where="crossfeed.windows.block_runs.hidden_runs",
    ),
    Difference(
        item="empty views",
        paper="a single channel is kept",
        authors_code="channel 0, even when absent",
        under_paper="a channel drawn from those that were present",
        under_crossfeed="the same",
        where="crossfeed.windows.corrupt.corrupt",
    ),
    Difference(
        item="token inputs",
        paper="value and presence",
        authors_code="value, presence and schema flag; the last two are equal for every token that is read",
        under_paper="the value and an embedding of the channel",
        under_crossfeed="`mended` the same; the sensor network has other tokens",
        where="crossfeed.model.jepa.encoder.RowEncoder",
    ),
    Difference(
        item="rows without a channel",
        paper="a single channel is kept so that the average is defined",
        authors_code="channel 0 is read as zero",
        under_paper="channel 0 is read as zero",
        under_crossfeed="a zero vector, which command and time are added to",
        where="crossfeed.model.jepa.encoder.RowEncoder.read",
    ),
    Difference(
        item="activation",
        paper="not said",
        authors_code="ReLU inside the blocks",
        under_paper="ReLU",
        under_crossfeed="GELU",
        where="crossfeed.model.parts.blocks.BlockConfig",
    ),
    Difference(
        item="target dropout",
        paper="not said",
        authors_code="the teacher keeps dropout while training",
        under_paper="dropout",
        under_crossfeed="none: the teacher is always in evaluation mode",
        where="crossfeed.model.jepa.target_encoder.TargetEncoder",
    ),
    Difference(
        item="target positions",
        paper="not said",
        authors_code="the five target rows stand at 0 to 4",
        under_paper="0 to 4",
        under_crossfeed="their distances 1, 2, 4, 8, 16",
        where="crossfeed.model.jepa.target_encoder.TargetEncoder",
    ),
    Difference(
        item="horizon embedding",
        paper="a horizon embedding",
        authors_code="of the slot's index",
        under_paper="of the slot's index: other horizons cannot be asked for",
        under_crossfeed="of the horizon's value",
        where="crossfeed.model.parts.horizon_embedding.HorizonEmbedding",
    ),
    Difference(
        item="cross-attention",
        paper="the horizon slots are conditioned on the commands by attention",
        authors_code="the same function as token injection, so 15 of 20 candidates ran as another one than named",
        under_paper="real attention over the mean commands: these 15 differ from the published runs",
        under_crossfeed="real attention over the planned steps",
        where="crossfeed.model.jepa.predictor.Predictor",
    ),
    Difference(
        item="variance bound",
        paper="a floor of the log-variance at -8",
        authors_code="a hard clamp to +-8 after de-normalisation, without gradient beyond",
        under_paper="the hard clamp",
        under_crossfeed="a smooth bend and a noise floor learned per channel",
        where="crossfeed.model.jepa.head.Head.bound",
    ),
    Difference(
        item="likelihood",
        paper="not said",
        authors_code="without the constant 0.919",
        under_paper="with it: published NLL values are 0.919 lower than ours",
        under_crossfeed="the same",
        where="crossfeed.distribution.Gaussian",
    ),
    Difference(
        item="decay",
        paper="weight decay 0.01",
        authors_code="norms and biases are decayed too",
        under_paper="everything is decayed",
        under_crossfeed="weights of linear maps alone",
        where="crossfeed.training.update.optimiser.parameter_groups",
    ),
    Difference(
        item="warm-up",
        paper="none",
        authors_code="a setting that nothing reads",
        under_paper="none; the setting works where it is used",
        under_crossfeed="`mended` none, `crossfeed` 100 steps",
        where="crossfeed.training.update.schedule.learning_rates",
    ),
    Difference(
        item="precision",
        paper="mixed precision enabled",
        authors_code="as in the paper",
        under_paper="bf16 on GPUs that compute it, float32 elsewhere; losses always in float32",
        under_crossfeed="the same",
        where="crossfeed.training.devices.acceleration.resolve_precision",
    ),
    Difference(
        item="pretraining loader",
        paper="a deterministic held-out pass",
        authors_code="the validation windows are not masked",
        under_paper="not masked",
        under_crossfeed="under the masks of the training, drawn from protocol seed and window",
        where="crossfeed.training.measure.validate.Validator",
    ),
    Difference(
        item="pretraining selection",
        paper="latent and VICReg terms, never the training loss",
        authors_code="the same on consecutive windows; it grows with the scale of the latents, so epoch 0 is "
        "always kept",
        under_paper="the same",
        under_crossfeed="`mended` latent error over the variance of the targets, on shuffled windows; `crossfeed` "
        "has no pretraining",
        where="crossfeed.training.measure.validate.Validator.losses",
    ),
    Difference(
        item="gate latents",
        paper="predicted",
        authors_code="predicted",
        under_paper="predicted",
        under_crossfeed="context and target; all three are shown",
        where="crossfeed.training.config.HealthConfig",
    ),
    Difference(
        item="gate scale",
        paper="smallest standard deviation below 0.05, or rank below 10 %",
        authors_code="as in the paper",
        under_paper="as in the paper; `paper-v2` relative to the median one, as the outlook asks",
        under_crossfeed="relative to the median one, and a share of the latents that varies at all",
        where="crossfeed.training.measure.health.collapse_reasons",
    ),
    Difference(
        item="schema-drop component",
        paper="the schema is restricted to the ten shared channels",
        authors_code="all seventeen channels are judged, hidden ones included",
        under_paper="all channels are judged",
        under_crossfeed="the shared channels are judged",
        where="crossfeed.evaluation.bundle.measure_bundle",
    ),
    Difference(
        item="masked component",
        paper="deterministic corruption masks",
        authors_code="each candidate's own masks",
        under_paper="each candidate's own masks",
        under_crossfeed="one suite of masks for all",
        where="crossfeed.evaluation.bundle.measure_bundle",
    ),
    Difference(
        item="self-supervised component",
        paper="best held-out SSL validation loss reached during pretraining",
        authors_code="with each candidate's own weights, on unmasked windows",
        under_paper="as the authors measure it",
        under_crossfeed="one suite of masks and the default weights for all, divided by the variance of the targets",
        where="crossfeed.evaluation.bundle.measure_bundle",
    ),
    Difference(
        item="evaluation space",
        paper="one common space in the post-lock ablation; of the search nothing is said",
        authors_code="the RMSE of the two robustly normalised candidates entered the pool in their own space, 453 "
        "instead of 0.98",
        under_paper="one space for all: the z-score of the source's train rows; this decides who wins, see [the "
        "study](study.md#the-papers-selection-retold)",
        under_crossfeed="the same",
        where="crossfeed.evaluation.setup.SourceData.of",
    ),
    Difference(
        item="candidates",
        paper="twenty",
        authors_code="the same twenty",
        under_paper="the same twenty; `paper-v2` with instance normalisation",
        under_crossfeed="a list of its own with the preset in it",
        where="crossfeed.study.candidates.candidates_of",
    ),
    Difference(
        item="score",
        paper="mean and standard deviation of the pool",
        authors_code="as in the paper",
        under_paper="mean and standard deviation; `paper-v2` median and MAD",
        under_crossfeed="median and MAD; both scores are shown",
        where="crossfeed.study.record.score.run_scores",
    ),
    Difference(
        item="ranked seeds",
        paper="mean over the valid seeds",
        authors_code="a candidate with one valid seed stands below those with two",
        under_paper="two valid seeds to be ranked",
        under_crossfeed="the same",
        where="crossfeed.study.record.score.ranked",
    ),
    Difference(
        item="stability rule",
        paper="the leader of the whole pool at four seeds against the leader of the five finalists at the fifth",
        authors_code="as in the paper",
        under_paper="as in the paper",
        under_crossfeed="the finalists' leader at both counts: a change of pool is no evidence",
        where="crossfeed.study.confirm.confirm",
    ),
    Difference(
        item="seeds after a refusal",
        paper="from five to seven for the leading candidates",
        authors_code="as in the paper",
        under_paper="two at a time for those that led",
        under_crossfeed="one at a time for those that led",
        where="crossfeed.study.confirm.confirm",
    ),
    Difference(
        item="invalid seeds",
        paper="at least five valid seeds",
        authors_code="invalid seeds of the leader are no obstacle",
        under_paper="no obstacle, as long as five are valid",
        under_crossfeed="a leader with an invalid seed is not locked",
        where="crossfeed.study.record.lockable.blemishes",
    ),
    Difference(
        item="flagged leaders",
        paper="not locked; what follows is not said",
        authors_code="-",
        under_paper="may be passed over, which the ledger says, and the next one is confirmed",
        under_crossfeed="the same",
        where="crossfeed.study.confirm.confirm",
    ),
    Difference(
        item="locked seed",
        paper="the best of seven",
        authors_code="the best",
        under_paper="the best",
        under_crossfeed="the median",
        where="crossfeed.study.record.rules.PROTOCOLS",
    ),
    Difference(
        item="lock hashes",
        paper="configuration, code, normaliser, checkpoint",
        authors_code="as in the paper",
        under_paper="these and the data, sealed target included",
        under_crossfeed="the same",
        where="crossfeed.study.lock.hashes",
    ),
    Difference(
        item="model file",
        paper="loading reports missing and unexpected keys",
        authors_code="as in the paper",
        under_paper="loading refuses them",
        under_crossfeed="the same",
        where="crossfeed.model.model_file.check_tensors",
    ),
    Difference(
        item="order of openings",
        paper="confirmatory, then declared",
        authors_code="-",
        under_paper="enforced",
        under_crossfeed="enforced",
        where="crossfeed.study.opening.unseal",
    ),
    Difference(
        item="flagged runs",
        paper="out of the ranking, scored in the declared ablation",
        authors_code="as in the paper",
        under_paper="as in the paper",
        under_crossfeed="as in the paper, and marked wherever they are shown",
        where="crossfeed.study.record.outcomes.has_numbers",
    ),
    Difference(
        item="sign-flip test",
        paper="one-sided: three pairs reach 0.125",
        authors_code="as in the paper",
        under_paper="two-sided: three pairs reach 0.25",
        under_crossfeed="the same",
        where="crossfeed.evaluation.statistics.compare",
    ),
    Difference(
        item="few-shot loss",
        paper="not said",
        authors_code="squared error over all channels, absent ones regressed to zero; the variance is left",
        under_paper="the same",
        under_crossfeed="likelihood of present channels; the spread learns from errors made in advance",
        where="crossfeed.adaptation.learning.update",
    ),
    Difference(
        item="few-shot query",
        paper="the remaining, later windows, so another query for each support",
        authors_code="as in the paper",
        under_paper="as in the paper; the number of windows stands in every row",
        under_crossfeed="what follows the largest support, the same windows for every fraction and zero-shot",
        where="crossfeed.adaptation.support.support_and_query",
    ),
    Difference(
        item="few-shot seed",
        paper="not said",
        authors_code="the draw of the batches is not seeded",
        under_paper="seeded",
        under_crossfeed="seeded",
        where="crossfeed.adaptation.fewshot.few_shot",
    ),
    Difference(
        item="online updates",
        paper="causal, not used for results",
        authors_code="updates with targets up to 16 s in the future",
        under_paper="a window is learned from once its last target was observed",
        under_crossfeed="the same",
        where="crossfeed.adaptation.online.blocks",
    ),
    Difference(
        item="official code",
        paper="100 epochs, one seed of its own",
        authors_code="as in the paper",
        under_paper="the same, with `--budget paper`",
        under_crossfeed="the budget that is asked for",
        where="crossfeed.baselines.budget.named_budget",
    ),
    Difference(
        item="official learning rate",
        paper="not said",
        authors_code="1e-4 at its peak: `TST` (one cycle) for PatchTST, `type1` (halved every epoch) for iTransformer",
        under_paper="the same",
        under_crossfeed="the same",
        where="crossfeed.baselines.official.SCHEDULES",
    ),
    Difference(
        item="official hyperparameters",
        paper="repository defaults, which are width 512, 2 layers, feed-forward 2048, patch 16, stride 8",
        authors_code="width 128, 8 heads, 3 layers, feed-forward 256; patch 8, stride 4, dropout 0.2 (PatchTST), 0.1",
        under_paper="the authors' real ones",
        under_crossfeed="the same",
        where="crossfeed.baselines.official.OfficialNetwork",
    ),
    Difference(
        item="official SimMTM",
        paper="diverged to NaN at two learning rates, not reported",
        authors_code="not said",
        under_paper="run where a clone is given and reported as it ends; else named with the paper's words, no number",
        under_crossfeed="run where a clone is given",
        where="crossfeed.baselines.official.OfficialForecaster",
    ),
    Difference(
        item="licence",
        paper="both data sets CC BY 4.0",
        authors_code="-",
        under_paper="JOANNEUM's record says CC BY-NC, and that is what is shown before a download",
        under_crossfeed="the same",
        where="crossfeed.machines.joanneum.LOG_FORMAT",
    ),
)  # fmt: skip


def table(differences: Iterable[Difference] = DIFFERENCES) -> str:
    """The rows as a Markdown table."""
    rows = [HEADS, *((*astuple(row)[:-1], f"`{row.where}`") for row in differences)]
    head, *lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([head, "|" + "---|" * len(HEADS), *lines])


def rendered(page: str) -> str:
    """The page with the table between its marks made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(rendered(document.read_text(encoding="utf-8")), encoding="utf-8")
