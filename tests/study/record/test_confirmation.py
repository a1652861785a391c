"""What a confirmation writes into the ledger is what is read from it."""

import json

from crossfeed.study.record.declaration import Confirmation
from crossfeed.study.record.ledger import canonical_json


def test_ten_seeds_come_after_nine_although_the_ledger_sorts_texts() -> None:
    found = Confirmation(("a", "b"), {9: "a", 10: "b", 11: "b"}, "paper")
    read = Confirmation.recorded(json.loads(canonical_json(found.content())))
    assert read == found
    assert list(read.leaders) == [9, 10, 11]
    assert (read.leader, read.stable) == ("b", True)
    assert read.history == "a at 9 seeds, b at 10 seeds, b at 11 seeds"


def test_a_leader_stands_when_two_seed_counts_in_a_row_agree() -> None:
    assert not Confirmation(("a",), {2: "a"}, "robust").stable
    assert not Confirmation(("a", "b"), {2: "a", 3: "b"}, "robust").stable
    assert Confirmation(("a", "b"), {2: "b", 3: "a", 4: "a"}, "robust").stable
