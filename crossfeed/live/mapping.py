"""What the nodes, topics and metrics of a live source mean: the mapping that `crossfeed live discover` proposes."""

from pydantic import Field

from crossfeed.configuration import CheckedForm
from crossfeed.live.source import LINE, OVERRIDES, live_segmentation
from crossfeed.machines.declaration import PROGRAM, LogFormat, Segmentation
from crossfeed.machines.mapping import ColumnMapping


class States(CheckedForm):
    """Where the control tells what it is doing."""

    program: str | None = None
    line: str | None = None
    feed_override: str | None = None
    rapid_override: str | None = None
    spindle_override: str | None = None

    def names(self) -> dict[str, str]:
        """Native name -> name under which it is told."""
        told = {"program": PROGRAM, "line": LINE, **OVERRIDES}
        return {native: told[field] for field, native in self.model_dump().items() if native is not None}


class LiveMapping(ColumnMapping):
    """A user's description of a live source."""

    states: States = States()
    period: float = Field(default=1.0, gt=0)
    sampling_ms: float = Field(default=100.0, gt=0)
    publishing_ms: float = Field(default=250.0, gt=0)
    gap_s: float = Field(default=10.0, gt=0)

    def log_format(self, title: str) -> LogFormat:
        """What the source will tell."""
        return LogFormat(
            name="live",
            title=title,
            machine=self.machine,
            schema=self.schema_,
            columns=self.native_columns(),
            period=self.period,
            segmentation=live_segmentation(Segmentation(), self.gap_s),
            read=lambda log_format, path: iter(()),  # noqa: ARG005 (it is heard, not read)
            change_driven=True,
        )

    def names(self) -> dict[str, str]:
        """Native name -> channel or state, of everything that is to be listened to."""
        return {c.native: c.channel for c in self.columns if c.native} | self.states.names()
