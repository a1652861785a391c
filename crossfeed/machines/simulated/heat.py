"""Two thermal nodes per motor. The pair is linear, so it is solved in its two modes, each a first-order filter."""

from dataclasses import dataclass

import numpy as np

from crossfeed.machines.simulated.filters import accumulate
from crossfeed.machines.simulated.noise import Floats
from crossfeed.machines.simulated.parameters import Heat


@dataclass(frozen=True, slots=True)
class Modes:
    """The two-node model turned into independent modes m: dm/dt = rate * m + per_watt * loss + per_kelvin * air."""

    rates: Floats  # (2,) 1/s, negative
    per_watt: Floats  # (2,)
    per_kelvin: Floats  # (2,)
    winding: Floats  # (2,) winding temperature per mode

    @classmethod
    def of(cls, heat: Heat) -> "Modes":
        inner, outer = 1 / heat.winding_to_housing, 1 / heat.housing_to_surroundings
        flow = np.array(
            [
                [-inner / heat.winding_capacity, inner / heat.winding_capacity],
                [inner / heat.housing_capacity, -(inner + outer) / heat.housing_capacity],
            ]
        )
        # The flow is similar to a symmetric matrix, so its modes are real, whatever type the library gives them.
        rates, vectors = (np.real(part) for part in np.linalg.eig(flow))
        inverse = np.linalg.inv(vectors)
        return cls(
            rates=rates,
            per_watt=inverse[:, 0] / heat.winding_capacity,
            per_kelvin=inverse[:, 1] * outer / heat.housing_capacity,
            winding=vectors[0],
        )

    def settled(self, time_step: float, loss: float, air: float) -> Floats:
        """The carries (2,) of a motor that has lost `loss` W in air of `air` degC for a long time."""
        steady = -(self.per_watt * loss + self.per_kelvin * air) / self.rates
        return np.asarray(np.exp(self.rates * time_step) * steady)

    def warm(self, time_step: float, loss: Floats, air: Floats, carries: Floats) -> tuple[Floats, Floats]:
        """Winding temperature over the steps, and the carries after them."""
        temperature = np.zeros(len(loss))
        after = np.empty(2)
        for mode in range(2):
            kept = float(np.exp(self.rates[mode] * time_step))
            gain = float(np.expm1(self.rates[mode] * time_step) / self.rates[mode])
            drive = self.per_watt[mode] * loss + self.per_kelvin[mode] * air
            values, after[mode] = accumulate(drive, kept, gain, float(carries[mode]))
            temperature += self.winding[mode] * values
        return temperature, after
