"""Products that use the widest units, and what they leave behind."""

import threading

import pytest
import torch

from crossfeed import processes as products
from crossfeed.processes import wide_products


@pytest.fixture
def processor(monkeypatch):
    """A processor on which the other library is the quicker one, whatever this machine has."""
    monkeypatch.setattr(products, "gains", lambda: True)
    monkeypatch.setenv("CROSSFEED_COMMAND", "1")


def setting():
    return torch.get_float32_matmul_precision(), torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.usefixtures("processor")
def test_the_setting_is_put_back_even_after_an_error():
    before = setting()
    inside = []

    @wide_products()
    def fails():
        inside.append(setting())
        raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert inside == [("medium", False)]
    assert setting() == before


@pytest.mark.usefixtures("processor")
def test_a_setting_of_the_users_own_is_put_back():
    torch.set_float32_matmul_precision("high")
    try:
        with wide_products(), wide_products():
            pass
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.usefixtures("processor")
def test_a_thread_that_ends_first_takes_nothing_from_the_others():
    before = setting()

    @wide_products()
    def short():
        return setting()

    with wide_products():
        thread = threading.Thread(target=short)
        thread.start()
        thread.join()
        assert setting() == ("medium", False)
    assert setting() == before


@pytest.mark.usefixtures("processor")
def test_a_library_changed_the_settings_of_a_process_that_was_not_its_own(monkeypatch):
    monkeypatch.delenv("CROSSFEED_COMMAND")
    before = setting()
    with wide_products():
        assert setting() == before


@pytest.mark.usefixtures("processor")
def test_processors_that_gain_nothing_are_left_alone(monkeypatch):
    monkeypatch.setattr(products, "gains", lambda: False)
    before = setting()
    with wide_products():
        assert setting() == before


@pytest.mark.parametrize(
    ("capability", "processor"), [("AVX2", "vendor_id : AuthenticAMD"), ("AVX512", "vendor_id : GenuineIntel")]
)
def test_only_processors_that_were_measured_gain(monkeypatch, capability, processor):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(products, "_processor", lambda: processor)
    assert not products.gains.__wrapped__()


def test_a_processor_that_rounds_more_is_found_out(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(products, "_processor", lambda: "vendor_id : AuthenticAMD")
    exact = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda one, two: exact(one.bfloat16(), two.bfloat16()).float())
    assert not products.gains.__wrapped__()


def test_products_keep_their_precision_here(monkeypatch):
    monkeypatch.setenv("CROSSFEED_COMMAND", "1")
    random = torch.Generator().manual_seed(3)
    one, two = (torch.randn(4, 85, 256, generator=random) for _ in range(2))
    with wide_products():
        said = torch.bmm(one, two.transpose(1, 2))
    truth = torch.bmm(one.double(), two.double().transpose(1, 2))
    torch.testing.assert_close(said.double(), truth, rtol=0, atol=1e-5 * float(truth.abs().max()))
