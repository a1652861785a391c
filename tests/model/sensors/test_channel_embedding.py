"""Who a channel is: quantity and place are shared between channels, the name is its own."""

from pathlib import Path

import pytest
import torch

from crossfeed import schema
from crossfeed.model.interface import Plan
from crossfeed.model.model_file import locate_model
from crossfeed.model.sensors.members import ChannelEmbedding
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import PLACES, QUANTITIES, Channel, Schema

KNOWN = tuple(QUANTITIES)


def channel(name: str, quantity: str = "current") -> Channel:
    return Channel(name=name, quantity=quantity, unit=QUANTITIES.get(quantity, "1"))


def without_names(*channels: Channel) -> torch.Tensor:
    """The vectors of channels whose own names mean nothing yet."""
    torch.manual_seed(0)
    identity = ChannelEmbedding(channels, KNOWN, 1, 6)
    with torch.no_grad():
        identity.own.zero_()
        return identity()[0]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("spindle_current", "spindle"),
        ("x_torque", "x"),
        ("feed_z", "z"),
        ("C-axis-load", "c"),
        ("c-load", "c"),
        ("Spindle Load", "spindle"),
        ("axes.y.current", "y"),
        ("ambient_temp", ""),
        ("max_load", ""),
        ("xylophone", ""),
        ("", ""),
    ],
)
def test_the_place_is_a_whole_word_of_the_name(name: str, place: str) -> None:
    """Names with blanks or dots in them had no place: only dashes and underscores parted words."""
    assert channel(name).place == place


def test_quantity_and_place_are_shared_and_the_name_is_not() -> None:
    first, second, elsewhere, other = without_names(
        channel("x_current"), channel("x_current_2"), channel("y_current"), channel("x_power", "power")
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, elsewhere)
    assert not torch.equal(first, other)
    torch.manual_seed(0)
    own = ChannelEmbedding((channel("x_current"), channel("x_current_2")), KNOWN, 1, 6)()[0]
    assert not torch.equal(own[0], own[1])


def test_what_is_learned_of_one_axis_reaches_the_others() -> None:
    torch.manual_seed(0)
    identity = ChannelEmbedding((channel("x_current"), channel("y_current"), channel("x_power", "power")), KNOWN, 1, 4)
    identity()[0, 0].sum().backward()
    for table in (identity.quantity, identity.place, identity.own):
        assert table.grad is not None
    known = list(QUANTITIES)
    assert (identity.quantity.grad[0, known.index("current")] == 1.0).all()
    assert (identity.quantity.grad[0, known.index("power")] == 0.0).all()
    assert (identity.place.grad[0, PLACES.index("x")] == 1.0).all()
    assert (identity.own.grad[0, 1:] == 0.0).all()


def test_a_quantity_of_the_users_own_has_a_row_of_its_own() -> None:
    sensors = (channel("sound", "loudness"), channel("load", "load"))
    Schema(name="noisy", sensors=sensors, commands=(channel("feed", "feed"),), quantities={"loudness": "1"})
    vectors = without_names(*sensors)
    assert vectors.shape == (2, 6)
    assert not torch.equal(vectors[0], vectors[1])


def test_what_follows_from_the_schema_is_not_stored() -> None:
    identity = ChannelEmbedding((channel("x_current"),), KNOWN, 1, 4)
    assert set(identity.state_dict()) == {"quantity", "place", "own"}


def shipped_forecast() -> torch.Tensor:
    """What the shipped model expects of a fixed window."""
    model = WorldModel.load(locate_model("fleet"))
    draws = torch.Generator().manual_seed(0)
    sensors, commands = len(model.schema.sensors), len(model.schema.commands)
    x_BKC = torch.randn(2, model.config.context, sensors, generator=draws)
    a_BKA = torch.randn(2, model.config.context, commands, generator=draws)
    future_BTA = torch.randn(2, model.horizons[-1], commands, generator=draws)
    with torch.inference_mode():
        context = model.encode(x_BKC, torch.ones_like(x_BKC, dtype=torch.bool), a_BKA)
        return model.decode(context, Plan.under(future_BTA, model.horizons)).distribution.mean


def test_one_more_quantity_made_every_saved_model_unreadable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The number of known quantities was a weight's shape."""
    before = shipped_forecast()
    monkeypatch.setattr(schema, "QUANTITIES", {"loudness": "1"} | QUANTITIES)
    monkeypatch.setattr("crossfeed.model.sensors.model.QUANTITIES", schema.QUANTITIES)
    assert torch.equal(shipped_forecast(), before)
    shipped = WorldModel.load(locate_model("fleet"))
    assert "loudness" not in shipped.config.quantities
    # A model that is made from now on has a row for it, and keeps it in its file.
    config = shipped.config.model_copy(update={"quantities": None})
    later = WorldModel.build(config, shipped.schema, shipped.normaliser)
    assert later.network.sensors.quantity.shape[1] == shipped.network.sensors.quantity.shape[1] + 1
    later.save(tmp_path / "later.safetensors", {})
    monkeypatch.undo()
    assert WorldModel.load(tmp_path / "later.safetensors").config.quantities[0] == "loudness"


def test_a_quantity_without_a_row_reads_as_an_unknown_one() -> None:
    torch.manual_seed(0)
    identity = ChannelEmbedding((channel("a", "loudness"), channel("b", "current")), ("current",), 1, 4)
    assert identity.quantity_C.tolist() == [1, 0]
    assert identity.quantity.shape == (1, 2, 4)
