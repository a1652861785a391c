"""Weights in eight bits: a quarter of the size."""

import tempfile
from pathlib import Path
from typing import Any


def in_int8(model: Any) -> Any:
    """The same ONNX model with the weights of its products in int8, one scale for each column."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "float32.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, before)
        quantize_dynamic(before, after, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul"])
        return onnx.load(after)
