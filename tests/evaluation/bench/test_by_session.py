"""Forecasts in another frame come back in that of the windows; each session asks its own forecaster."""

import numpy as np
import torch

from crossfeed.evaluation.bench.fleet import BySession
from crossfeed.evaluation.bench.own_logs import JudgedWindows, OwnLogs
from crossfeed.evaluation.forecaster import Forecaster, InFrame, naive_baselines, reframed
from crossfeed.logs.table import Table
from crossfeed.model.distribution import Distribution, Gaussian
from crossfeed.schema import Channel
from crossfeed.windows.frame import fit_frame
from crossfeed.windows.split_tables import DataConfig
from crossfeed.windows.windows import WindowBatch
from tests.evaluation.bench.conftest import CONTEXT, HORIZONS


def setting(own: Table) -> tuple[OwnLogs, JudgedWindows]:
    logs = OwnLogs.of(own, DataConfig())
    return logs, JudgedWindows.of(logs, CONTEXT, HORIZONS, 60, "cpu")


def test_persistence_says_the_same_in_every_frame(own: Table) -> None:
    logs, judged = setting(own)
    test = logs.table.laid_out(logs.test)
    data = judged.of_table(test, judged.space)
    frame = fit_frame(own.schema, own.sensors[:40], own.commands[:40])
    plain = naive_baselines(HORIZONS)[0]
    batch = data.windows.batch(torch.arange(len(data.windows)))
    inside = InFrame(plain, frame, judged.space).predict(batch)
    torch.testing.assert_close(inside.mean, plain.predict(batch).mean, rtol=1e-4, atol=1e-4)


def test_there_and_back_is_where_it_was(own: Table) -> None:
    logs, judged = setting(own)
    data = judged.of_table(logs.table.laid_out(logs.test), judged.space)
    frame = fit_frame(own.schema, own.sensors[:40], own.commands[:40])
    batch = data.windows.batch(torch.arange(len(data.windows)))
    again = reframed(reframed(batch, judged.space, frame), frame, judged.space)
    for name in ("x_BKC", "future_x_BHC", "a_BKA", "mean_a_BHA", "future_a_BTA"):
        torch.testing.assert_close(getattr(again, name), getattr(batch, name), rtol=1e-3, atol=1e-4)


def test_a_command_that_the_windows_do_not_have_was_a_traceback(own: Table) -> None:
    logs, judged = setting(own)
    data = judged.of_table(logs.table.laid_out(logs.test), judged.space)
    batch = data.windows.batch(torch.arange(4))
    further = Channel(name="feed_of_a_gantry", quantity="feed", unit="mm/min")
    schema = own.schema.model_copy(update={"commands": (further, *own.schema.commands)})
    still = np.zeros((40, 1))
    frame = fit_frame(schema, own.sensors[:40], np.concatenate([still, own.commands[:40]], axis=1))
    seen = frame.inverse_commands(reframed(batch, judged.space, frame).a_BKA)
    torch.testing.assert_close(seen[..., 0], torch.zeros_like(seen[..., 0]))
    torch.testing.assert_close(seen[..., 1:], judged.space.inverse_commands(batch.a_BKA), rtol=1e-3, atol=1e-3)


def test_each_window_is_forecast_by_its_own_session_in_any_order(own: Table) -> None:
    logs, judged = setting(own)
    data = judged.of_table(logs.table.laid_out(logs.test), judged.space)

    class Constant(Forecaster):
        name, uses_future_commands = "constant", False

        def __init__(self, value: float) -> None:
            self.value = value

        def predict(self, batch: WindowBatch) -> Distribution:
            mean = torch.full_like(batch.future_x_BHC, self.value)
            return Gaussian(mean, torch.ones_like(mean))

    sessions = [count.session for count in data.windows.counts]
    both = BySession("constant", False, data.windows, lambda session: Constant(float(sessions.index(session))))
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(data.windows)))
    said = both.predict(data.windows.batch(order)).mean[:, 0, 0]
    torch.testing.assert_close(said, data.windows.group_of_window[order].to(said))
