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
        item="candidates",
        paper="twenty",
        authors_code="the same twenty",
        under_paper="the same twenty",
        under_crossfeed="a list of its own with the preset in it",
        where="crossfeed.study.candidates.candidates_of",
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
        item="score",
        paper="mean and standard deviation of the pool",
        authors_code="as in the paper",
        under_paper="mean and standard deviation",
        under_crossfeed="median and MAD; both scores are shown",
        where="crossfeed.study.record.score.run_scores",
    ),
    Difference(
        item="self-supervised component",
        paper="best held-out SSL validation loss reached during pretraining",
        authors_code="each candidate's own weights, on unmasked windows",
        under_paper="one suite of masks and the default weights for all; the candidate's own is `ssl_as_trained`",
        under_crossfeed="the same, divided by the variance of the targets",
        where="crossfeed.evaluation.bundle.measure_bundle",
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
        item="flagged runs",
        paper="out of the ranking, scored in the declared ablation",
        authors_code="as in the paper",
        under_paper="as in the paper",
        under_crossfeed="as in the paper, and marked wherever they are shown",
        where="crossfeed.study.record.outcomes.has_numbers",
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
        item="sign-flip test",
        paper="one-sided: three pairs reach 0.125",
        authors_code="as in the paper",
        under_paper="two-sided: three pairs reach 0.25",
        under_crossfeed="the same",
        where="crossfeed.evaluation.statistics.compare",
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
        item="few-shot loss",
        paper="not said",
        authors_code="squared error over all channels, absent ones regressed to zero; the variance is left; unseeded",
        under_paper="the same, with a seed",
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
        item="order of openings",
        paper="confirmatory, then declared",
        authors_code="by the hand of whoever runs the scripts",
        under_paper="enforced",
        under_crossfeed="enforced",
        where="crossfeed.study.opening.unseal",
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
