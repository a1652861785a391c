"""A trained model as one ONNX file: checked against torch before it is written, priced before it is made smaller."""
