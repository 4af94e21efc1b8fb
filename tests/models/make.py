"""Makes the small ONNX files of this folder: networks that return a known function of their input.

y = 0.5 + 0.1 (r + g / 2 + b / 4) of the normalised picture, so that another mean, deviation, order, output or activation gives
another mask. Run with `onnx` of benches/peers/requirements.txt: python make.py
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
FREE = ["n", 3, "height", "width"]
WEIGHTS = np.array([0.1, 0.05, 0.025], np.float32).reshape(1, 3, 1, 1)
BIAS = np.array([0.5], np.float32)


def tensor(name, values):
    return numpy_helper.from_array(values, name)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(name, nodes, inputs, outputs, weights=(), **options):
    graph = helper.make_graph(nodes, name, inputs, outputs, initializer=list(weights))
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="backdrop")
    onnx.save(model, HERE / f"{name}.onnx", **options)


def linear(to="y", source="x"):
    return helper.make_node("Conv", [source, "weights", "bias"], [to])


def other():
    """1 - y."""
    return helper.make_node("Sub", ["one", "y"], ["z"])


one = tensor("one", np.array(1, np.float32))
parameters = [tensor("weights", WEIGHTS), tensor("bias", BIAS)]
x = [value("x", FREE)]
y, z = value("y", ["n", 1, "height", "width"]), value("z", ["n", 1, "height", "width"])

# The first output is the mask, as of U²-Net and IS-Net.
save("first", [linear(), other()], x, [y, z], [*parameters, one])
# The last output is the mask, as logits: BiRefNet.
logit = [
    linear(),
    other(),
    helper.make_node("Div", ["y", "z"], ["odds"]),
    helper.make_node("Log", ["odds"], ["logits"]),
]
save("last", logit, x, [z, value("logits", ["n", 1, "height", "width"])], [*parameters, one])
# A matte with a name, beside another output: withoutbg. It overshoots by a tenth.
scaled = [linear(), helper.make_node("Mul", ["y", "factor"], ["alpha"])]
factor = tensor("factor", np.array(1.2, np.float32))
save("named", scaled, x, [y, value("alpha", ["n", 1, "height", "width"])], [*parameters, factor])
# One size, and one picture a run.
fixed = [helper.make_node("Conv", ["picture", "weights", "bias"], ["y"])]
save("fixed", fixed, [value("picture", [1, 3, 32, 48])], [value("y", [1, 1, 32, 48])], parameters)
# Half precision.
half = [tensor("weights", WEIGHTS.astype(np.float16)), tensor("bias", BIAS.astype(np.float16))]
save(
    "half",
    [linear()],
    [value("x", FREE, TensorProto.FLOAT16)],
    [value("y", ["n", 1, "height", "width"], TensorProto.FLOAT16)],
    half,
)
# Weights in a file beside it.
big = [tensor("weights", WEIGHTS), tensor("bias", BIAS)]
save("data", [linear()], x, [y], big, save_as_external_data=True, location="data.onnx_data", size_threshold=0)
# What cannot be used: two inputs, an operator that nobody has, one output for three planes, no numbers.
two = [helper.make_node("Add", ["x", "w"], ["s"]), linear(source="s")]
save("two_inputs", two, [*x, value("w", FREE)], [y], parameters)
save("operator", [helper.make_node("Imaginary", ["x"], ["y"], domain="nobody")], x, [y])
save("planes", [helper.make_node("Relu", ["x"], ["y"])], x, [value("y", FREE)])
nothing = [linear("v"), helper.make_node("Sub", ["v", "v"], ["w"]), helper.make_node("Div", ["w", "w"], ["y"])]
save("nan", nothing, x, [y], parameters)
# The same everywhere.
save("constant", [linear("v"), helper.make_node("Sub", ["v", "v"], ["y"])], x, [y], parameters)
