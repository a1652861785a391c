"""From what a user names to a service that is ready; nothing here listens, so no extra is needed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crossfeed.errors import ConfigError
from crossfeed.evaluation.opened_model import open_model
from crossfeed.studio import service as studio
from crossfeed.studio.requests import MomentRequest
from crossfeed.studio.settings import ServeSettings
from tests.studio.conftest import Place

pytest.importorskip("prometheus_client", reason="needs the extra 'serve'")


def test_a_table_of_a_machine_that_fleet_had_not_met_was_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studio, "need", lambda *_: None)
    settings = ServeSettings(port=8400)
    service = studio.make_service(Path("fleet"), settings, history=place.log, device="cpu")
    served, alone = service.opened, open_model("fleet", "cpu", many_machines=True).fitted_to(place.table)
    np.testing.assert_array_equal(served.model.normaliser.sensor_scale, alone.model.normaliser.sensor_scale)
    assert served.provenance["row_period"] == place.table.period
    assert service.engine.moment(MomentRequest(at=40.0)).schema.sensor_names == place.table.schema.sensor_names
    refused: tuple[dict[str, Any], ...] = ({}, {"history": place.log, "live": studio.LiveSetup("file:log.csv")})
    for elsewhere in refused:
        with pytest.raises(ConfigError, match="has not met this one yet"):
            studio.make_service(Path("fleet"), settings, device="cpu", **elsewhere)
