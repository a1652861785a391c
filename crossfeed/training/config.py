"""What a training run needs to know beside the method: budget, optimiser, selection, seeds, health thresholds."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from crossfeed.configuration import CheckedForm

Initialisation = Literal["scratch", "body_fresh_head", "complete_checkpoint"]
Precision = Literal["auto", "float32", "bf16"]
Selection = Literal["scale_free", "paper"]
Keep = Literal["rmse", "transfer", "machines"]
Latents = Literal["context", "target", "predicted"]
# A model whose error grows by less than this factor under shuffled commands hardly listens to them.
WEAK_COMMAND_USE = 1.02


class HealthConfig(CheckedForm):
    """When latents count as collapsed, and on how many windows that is measured.

    rank_floor: effective rank as a fraction of the width. spread_floor: smallest standard deviation of a coordinate,
    relative to the median one or raw. varying_floor: standard deviation over root mean square of all latents, which
    falls to 0 when every window is mapped to the same point whatever the scale. latents: whose collapse counts; the
    paper gates what the predictor says, which varies with commands and horizons even where the encoder is dead.
    """

    rank_floor: float = Field(default=0.10, ge=0.0, lt=1.0)
    spread: Literal["relative", "raw"] = "relative"
    spread_floor: float = Field(default=0.05, ge=0.0)
    varying_floor: float = Field(default=0.10, ge=0.0)
    latents: tuple[Latents, ...] = Field(default=("context", "target"), min_length=1)
    windows: int = Field(default=1024, ge=8)


class TrainingConfig(CheckedForm):
    """Both stages of training; the defaults are those of the `crossfeed` preset at compact size.

    finetune_epochs: null means as many as the number of windows asks for. average_decay: weights are averaged over
    about 1 / (1 - decay) steps, and the average is what is validated and kept; 0 keeps the weights themselves.
    keep: the epoch of the second stage that is kept has the lowest RMSE; or (transfer) the lowest CRPS on validation
    windows and on the same windows as another machine might show them, together; or (machines) the lowest median over
    the validation machines of their CRPS, so that one strange machine among many decides nothing.
    """

    pretrain_epochs: int = Field(default=0, ge=0)
    finetune_epochs: int | None = Field(default=None, ge=0)
    initialisation: Initialisation = "scratch"
    batch_size: int = Field(default=128, ge=2)
    steps_per_epoch: int | None = Field(default=None, ge=1)
    validation_windows: int | None = Field(default=None, ge=8)
    learning_rate: float = Field(default=1e-3, gt=0.0)
    warmup_steps: int = Field(default=100, ge=0)
    schedule: Literal["constant", "cosine"] = "cosine"
    average_decay: float = Field(default=0.998, ge=0.0, lt=1.0)
    weight_decay: float = Field(default=0.01, ge=0.0)
    decay_everything: bool = False
    clip_norm: float = Field(default=1.0, gt=0.0, allow_inf_nan=True)  # infinity: no clipping
    patience: int = Field(default=30, ge=1)
    ema_momentum: float = Field(default=0.996, ge=0.0, le=1.0)
    ema_final_momentum: float | None = Field(default=None, ge=0.0, le=1.0)
    precision: Precision = "auto"
    acceleration: Literal["auto", "compile", "off"] = "auto"
    selection: Selection = "scale_free"
    keep: Keep = "transfer"
    seed: int = Field(default=0, ge=0)
    save_every: int = Field(default=1, ge=1)
    health: HealthConfig = HealthConfig()

    @field_validator("acceleration", mode="before")
    @classmethod
    def _yaml_reads_off_as_false(cls, value: object) -> object:
        return "off" if value is False else value

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.pretrain_epochs == 0 and self.finetune_epochs == 0:
            raise ValueError("pretrain_epochs and finetune_epochs are both 0: give at least one stage an epoch")
        if self.initialisation == "scratch" and self.finetune_epochs == 0:
            raise ValueError(
                "initialisation 'scratch' skips pretraining and finetune_epochs is 0, so nothing would be trained: "
                "set training.finetune_epochs or choose 'body_fresh_head'"
            )
        return self

    @property
    def stages(self) -> dict[str, int]:
        """The stages that will run, in order, with their epochs; training from scratch has no first stage."""
        assert self.finetune_epochs is not None, "the budget follows from the windows: see `budget.planned`"
        planned = {"pretrain": self.pretrain_epochs, "finetune": self.finetune_epochs}
        if self.initialisation == "scratch":
            del planned["pretrain"]
        return {name: epochs for name, epochs in planned.items() if epochs > 0}


def mended_training() -> TrainingConfig:
    """Two stages of the paper's length at a constant rate, scale-free selection and collapse test."""
    return TrainingConfig(
        pretrain_epochs=100,
        finetune_epochs=100,
        initialisation="body_fresh_head",
        learning_rate=3e-4,
        warmup_steps=0,
        schedule="constant",
        average_decay=0.0,
        patience=15,
        keep="rmse",
    )


def paper_training() -> TrainingConfig:
    """Training as the paper states it: everything decayed, raw-scale selection, predicted latents at the gate."""
    health = HealthConfig(spread="raw", varying_floor=0.0, latents=("predicted",))
    return mended_training().model_copy(update={"decay_everything": True, "selection": "paper", "health": health})
