"""Whether a model of many machines is worth beginning with on this one: as it came it has to beat the last value.

Some logs show what no machine does, because seconds between two cuts were taken out or columns are not what they are
called. What such a model knows is then in the way of a whole run, while fresh weights learn the log as it is.

B windows, H horizons, C sensors.
"""

from collections.abc import Sequence

import torch

from crossfeed.ingest.align import align
from crossfeed.ingest.table import Table
from crossfeed.model.model_file import ModelFile
from crossfeed.model.new_machine import in_frame
from crossfeed.model.world_model import WorldModel
from crossfeed.training.data import prepare
from crossfeed.training.going_on import going_on, read_by
from crossfeed.training.measure.floors import persistence
from crossfeed.training.order import spread_out
from crossfeed.training.run_config import RunConfig

WINDOWS = 256  # a second or two of a core
AT_ONCE = 128


@torch.no_grad()
def beats_last_value(body: ModelFile, tables: Sequence[Table], config: RunConfig) -> bool:
    """Whether its RMSE on windows that validate is below that of the last value, in deviations of the train rows."""
    read = [align(table, read_by(body, table.schema)) for table in tables]
    data = prepare(read, going_on(config, body), torch.device("cpu"), body.provenance.get("usual_scales"))
    model = in_frame(WorldModel.of_file(body), data.schema, data.normaliser)
    unit_C = torch.from_numpy(data.normaliser.sensor_scale / data.source.normaliser("zscore").sensor_scale)
    own, floor = torch.zeros(2, dtype=torch.float64)
    for index_B in torch.split(spread_out(len(data.validation), WINDOWS), AT_ONCE):
        batch = data.validation.batch(index_B)
        said_BHC = model(batch).distribution.mean
        last_BHC = persistence(batch.x_BKC, batch.m_BKC, model.horizons)
        for total, expected_BHC in ((own, said_BHC), (floor, last_BHC)):
            missed_BHC = unit_C * (expected_BHC - batch.future_x_BHC)
            total += torch.where(batch.future_m_BHC, missed_BHC.square(), 0.0).sum()
    return bool(own < floor)
