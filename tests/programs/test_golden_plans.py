"""What NC text becomes, held still: where moves end, how long they are, how they are planned, and what is remarked."""

import numpy as np
import pytest

from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import bundled_programs, read_program
from crossfeed.programs.plan import plan
from tests.programs.nc import parse

CUT = "S4000 M3 F900 G1"
TEXTS: dict[str, tuple[str, ...]] = {
    "arcs": (
        CUT, "G17 X10 Y0", "G2 X20 Y10 I10 J0", "G3 X30 Y0 CR=12", "G2 X40 Y-8 CR=-14", "G18 G3 X50 Z-6 I5 K-3",
        "G19 G2 Y5 Z4 CR=9", "G17 G3 X50 Y5 I-4 J3 Z-2 TURN=2", "G91 G2 X4 Y4 I4 J0", "G90 G3 X60 Y20 CR=15",
        "G2 X70 Y10 I=AC(60) J=AC(10)",
    ),
    "frames": (
        CUT, "TRANS X5 Y-3 Z1", "X10 Y10", "AROT Z30", "X20", "G2 X30 Y5 CR=9", "G1", "ATRANS X2", "AROT X15 Y-20",
        "X0 Y7 Z3", "ROT Z-90", "X12 Y4", "TRANS", "X1 Y1 Z1", "G91 X3 Y-2", "G90 G53 G0 Z600", "G54 G0 X0",
    ),
    "table": (
        "G0 X10 Y20 Z30 A30", "G1 F700 S900 M3 X20 B-40", "TRAORI", "X30 Y5 Z2 A10 C45", "X32 C90", "TRAFOOF", "C180",
        "G0 A0 B0 C0 X0",
    ),
    "cycles": (
        "G0 X0 Y0 Z20", "S2000 M3 F150", "G98 G81 X10 Y5 Z-8 R2", "X20", "G99 G82 X30 Z-6 R3 P500", "X40 Y8",
        "G83 X50 Z-10 R2 Q3.5", "G73 X60 Z-9 R1 Q2.5", "G80", "G0 Z40", "G20", "G81 X1 Z-0.3 R0.1", "G80", "G21 G0 X0",
    ),
    "arithmetic": (
        "R1=3.5 R2=SIN(30)*20+COS(60)*4", "R3=ATAN2(3,4)/10 R4=(7 MOD 4)+(9 DIV 2)+ROUND(2.5)+FUP(1.2)+FIX(-2.7)",
        "S=1000*R1 M3 F=200+R2*10", "G1 X=R1*2 Y=R2-R3 Z=-R4/4", "R5=SQRT(POT(R1)+POT(R2)) R6=LN(R5)+EXP(1)+TAN(45)",
        "X=R5 Y=R6", "X=MINVAL(R1,R2) Y=MAXVAL(R1,R2)", "IF R1>=3.5 AND NOT (R2<5) GOTOF ON", "X99", "ON: Y=ABS(-R3)",
        "R7=0", "WHILE R7<3", "X=IC(R7+1) Y=IC(-1)", "R7=R7+1", "ENDWHILE", "FOR R8=1 TO 2", "Z=IC(-0.5)", "ENDFOR",
        "REPEAT", "R7=R7-1", "X=IC(0.5)", "UNTIL R7<=0",
    ),
    "times": (
        "G0 X100 Y40", "G4 F1.5", "T1 M6", CUT, "X101", "X101.2 Y40.1", "X110 Y48", "G60 X112", "G64 Y50", "G9 X120",
        "G95 F0.2 X130", "G94 F60000 X140", "S8000 X150", "M5", "G4 S2000", "T2 M6", "G70 G0 X1", "G71 G0 X0 Z5",
    ),
}  # fmt: skip
LIMITS = MotionLimits(rapid=(20_000, 15_000, 9_000), acceleration=(3_000, 4_000, 2_000), corner_tolerance=0.05)
HELD: dict[str, list[float]] = {
    "arcs": [
        4213.37425, 49500, 440, 0, 19.4260621, 18.9260621, 0, 133378.922, 512647.163, 2297212.43, 113389.387,
        568408.07, 2265, 0, 15039, 24.2071377, 23.6571377, 0, 126613.924, 518894.044, 3194557.03, 141490.679,
        540160.344, 2839, 0, 18980,
    ],
    "frames": [
        13704.4323, 25183, 601, 0, 7.85155567, 6.39522347, 0.956332203, 897694.352, 945726.175, 883217.794, 54741.621,
        4401220.22, 752, 0, 9025, 15.2988269, 7.9927528, 6.75607412, 1080768.78, 1274071.17, 2008316.12, 265072.351,
        4309716.79, 939, 0, 21922,
    ],
    "table": [
        1492.8015, 6294, 120, 4, 17.0899535, 7.90854677, 1.34165804, -79293.9025, 353902.822, 448505.733, -1310.86826,
        -218700.055, 934, 0, 11349, 21.1397809, 9.86280338, 1.5, -80309.664, 355872.69, 609485.908, -1912.52452,
        -208084.579, 1187, 0, 13909,
    ],
    "cycles": [
        16259.3459, 10909, 1887, 0, 33.1330135, 29.26825, 2.81579275, 99156.2215, 722895.986, 1980095.54, 156785.901,
        403423.547, 3510, 0, 25953, 42.8233549, 36.5885, 5.23485493, -13378.5527, 858916.509, 2789818.7, 204629.965,
        116352.595, 4391, 0, 33813,
    ],
    "arithmetic": [
        781.395527, 21440, 1062, 0, 8.93916552, 8.50166552, 0, 15140.2793, 83558.3313, 926435.397, 9995.86501,
        52622.4004, 1026, 0, 8648, 11.1082227, 10.6269727, 0, 17493.5911, 83535.8362, 1272583.29, 12519.5509,
        62420.9293, 1281, 0, 10858,
    ],
    "times": [
        12394.5057, 1170687, 734, 15, 17.7954084, 2.60359331, 0.691815103, -101163.486, 482441.906, 513575.096,
        349987.45, 412551.661, 298, 80, 18879, 19.1649298, 3.17634184, 1.38858792, 20160.9385, 436494.843, 641489.904,
        371563.824, 344970.689, 378, 117, 20711,
    ],
    "contour_helix": [
        237452.672, 2369366, 175758, 0, 272.066581, 238.817417, 7.40295317, 283074.57, 23165705.9, 101470170,
        3871600.11, -399360.679, 28653, 0, 4149679, 354.453456, 298.497136, 31.9563199, 66663.4372, 21714197.5,
        143644225, 5410915.59, 129503.525, 35852, 0, 5502216,
    ],
    "drill_plate": [
        443401.463, 379244, 374847, 0, 386.055459, 289.765376, 37.3869468, -1048178.34, 20494326.5, 44280142,
        5136147.1, -734068.394, 34782, 8760, 3816768, 497.041948, 354.056032, 84.280033, -253394.134, 19495611.3,
        61586466.9, 6914471.54, 343543.353, 42397, 9844, 4904568,
    ],
}  # fmt: skip


def spread_out(values: object) -> float:
    """One number in which every place counts differently."""
    flat = np.nan_to_num(np.asarray(values, dtype=float).ravel(), posinf=7.0)
    return float(flat @ (1.0 + np.arange(len(flat)) % 11))


def told(name: str) -> list[float]:
    """Ends and lengths of moves, blocks and findings by line, durations under two sets of limits, sampled commands."""
    program = parse(*TEXTS[name]) if name in TEXTS else read_program(bundled_programs()[name])
    usual, slow = plan(program), plan(program, LIMITS, feed_override=0.8, rapid_override=0.6, spindle_override=1.1)
    found = [
        spread_out([[*move.end, move.length, *move.rotary] for move in program.moves]),
        spread_out([-1.0 if move.feed is None else move.feed for move in program.moves]),
        spread_out([block.line for block in program.blocks]),
        spread_out([finding.line for finding in program.findings]),
    ]
    for trajectory in (usual, slow):
        rows, moments = trajectory.sample(5.0, "mean"), trajectory.sample(20.0)
        found += [trajectory.duration, trajectory.cutting_time, trajectory.rapid_time]
        found += [spread_out(part) for part in (rows.feed, rows.path_feed, rows.spindle_speed, moments.position)]
        found += [spread_out(part) for part in (moments.feed, moments.cutting, moments.per_revolution, moments.line)]
    return found


@pytest.mark.parametrize("name", HELD)
def test_nc_text_becomes_what_it_became(name: str) -> None:
    assert told(name) == pytest.approx(HELD[name], rel=1e-6, abs=1e-6)
