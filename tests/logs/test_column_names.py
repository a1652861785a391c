"""What the name of a column says, as people and controls write it."""

import pytest

from crossfeed.logs.proposal import read_name


@pytest.mark.parametrize(
    ("name", "quantity", "drive", "unit", "commanded"),
    [
        ("I_Spindle [A]", "current", "spindle", "A", False),
        ("Spindeldrehzahl Soll [1/min]", "rotational speed", "spindle", "rpm", True),
        ("Drehmoment X-Achse [Nm]", "torque", "x", "N m", False),
        ("Wirkleistung Spindel / kW", "power", "spindle", "kW", False),
        ("Motortemperatur Z [°C]", "temperature", "z", "degC", False),
        ("Vorschub X soll [mm/min]", "feed", "x", "mm/min", True),
        ("Umgebungstemperatur", "temperature", "ambient", None, False),
        ("X1_CurrentFeedback", "current", "x", None, False),  # Siemens and others
        ("S1_CommandVelocity", "rotational speed", "spindle", None, True),
        ("r0080_SP1", "torque", "spindle", None, False),
        ("r0060[SP]", "rotational speed", "spindle", None, True),
        ("vaTorque_X1", "torque", "x", None, False),
        ("v actual X", "feed", "x", None, False),  # Heidenhain
        ("S nominal", "rotational speed", "spindle", None, True),
        ("SV LOAD X", "load", "x", None, False),  # Fanuc
        ("SP LOAD", "load", "spindle", None, False),
        ("Xload", "load", "x", None, False),
        ("Strom_Y_A", "current", "y", "A", False),
        ("Fx_cmd", "feed", "x", None, True),
        ("vY_soll", "feed", "y", None, True),
        ("Fx", None, "x", None, False),  # a force, as likely
        ("n_Set", "rotational speed", None, None, True),
        ("Werkzeugnummer", None, None, None, False),
        ("CURRENT_PROGRAM_NUMBER", None, None, None, False),
        ("S_prog", "rotational speed", "spindle", None, True),
        ("Sact", "rotational speed", None, None, False),
        ("CON.G.FREAL", "feed", None, None, False),  # Fagor
        ("CON.A.SREAL.S", "rotational speed", "spindle", None, False),
        ("/Channel/MachineAxis/aaCurr[u1,1]", "current", "x", None, False),  # Siemens
        ("/Channel/MachineAxis/vaTorque[u1, 4]", "torque", "axis_4", None, False),
        ("Irms_spindle", "current", "spindle", None, False),
        ("smcDC", "current", "spindle", None, False),
    ],
)
def test_names_as_people_and_controls_write_them(name, quantity, drive, unit, commanded) -> None:
    says = read_name(name)
    assert (says.quantity, says.drive, says.unit, says.commanded) == (quantity, drive, unit, commanded)


@pytest.mark.parametrize("name", ["CV3.S_KURT", "TV50.S_SK", "TV2.S_MEAN", "F_p_RMS", "Current_X_skewness"])
def test_forces_powers_and_shapes_of_signals_were_taken_for_speeds_and_feeds(name: str) -> None:
    assert read_name(name).quantity is None
