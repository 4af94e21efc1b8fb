#!/usr/bin/env python3
"""Exports the network of a weights file (safetensors, normalisation folded in) to ONNX, without PyTorch.

    export_onnx.py weights/fgnet-384.safetensors network.onnx
    export_onnx.py weights/fgnet-384.safetensors u2net_custom.onnx --rembg

The graph is that of `weights/train/model.py`, the weights are widened to single precision. In: f32 [N, 3, 384, 384], RGB,
`x / 127.5 - 1`. Out: f32 [N, 1, 384, 384], the mask in 0..1.

`--rembg` is for rembg's session `u2net_custom`: in [1, 3, 320, 320] with the mean and deviation of ImageNet, which is the
only input that session can make. The graph undoes that and enlarges to 384, so that the network itself does the same work.
"""
import argparse
import json
import struct
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE = 384
REMBG_SIDE = 320
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)
# Repeats and stride of the first block of each encoder stage, and the blocks whose output the decoder reads.
STAGES = ((1, 1), (3, 2), (3, 2), (4, 2), (4, 1), (5, 2), (1, 1))
TAPS = (0, 3, 6, 14, 20)
ATTENTION_HEADS = 4
OPSET = 18


def load(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file in half precision, widened."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F16":
            raise SystemExit(f"{path}: {name} is {entry['dtype']}, expected F16")
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[start:end], np.float16).reshape(entry["shape"]).astype(np.float32)
    return tensors


class Graph:
    """Builds the ONNX graph layer by layer. Each method returns the name of its output."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        self.tensors = tensors
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, value: object, dtype: type = np.float32) -> str:
        self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype), name)
        return name

    def conv(self, x: str, name: str, act: str | None = None, stride: int = 1, dilation: int = 1) -> str:
        weight, bias = self.tensors.pop(f"{name}.weight"), self.tensors.pop(f"{name}.bias")
        kernel = weight.shape[2]
        # Depthwise filters have one input channel; no dense layer of this network has.
        groups = weight.shape[0] if weight.shape[1] == 1 else 1
        pad = dilation * (kernel // 2)
        y = self.node("Conv", x, self.constant(f"{name}.weight", weight), self.constant(f"{name}.bias", bias), group=groups,
                      kernel_shape=[kernel, kernel], strides=[stride, stride], dilations=[dilation, dilation], pads=[pad] * 4)
        if act == "relu6":
            return self.node("Clip", y, self.constant("zero", 0.0), self.constant("six", 6.0))
        return self.node("Relu", y) if act == "relu" else y

    def inverted_residual(self, x: str, name: str, stride: int) -> str:
        inputs = self.tensors[f"{name}.dw.conv.weight"].shape[0]
        y = x
        if f"{name}.expand.conv.weight" in self.tensors:
            inputs = self.tensors[f"{name}.expand.conv.weight"].shape[1]
            y = self.conv(y, f"{name}.expand.conv", "relu6")
        outputs = self.tensors[f"{name}.project.conv.weight"].shape[0]
        y = self.conv(self.conv(y, f"{name}.dw.conv", "relu6", stride), f"{name}.project.conv")
        return self.node("Add", x, y) if stride == 1 and inputs == outputs else y

    def separable(self, x: str, name: str, dilation: int = 1) -> str:
        y = self.conv(self.conv(x, f"{name}.dw.conv", "relu", dilation=dilation), f"{name}.pw.conv")
        return self.node("Relu", self.node("Add", x, y))

    def attention(self, x: str, name: str) -> str:
        """Residual self-attention over all positions."""
        channels = self.tensors[f"{name}.project.weight"].shape[0]
        width = channels // ATTENTION_HEADS
        heads = self.constant("heads", [0, 3 * ATTENTION_HEADS, width, -1], np.int64)
        queries, keys, values = self.split(self.node("Reshape", self.conv(x, f"{name}.qkv"), heads), 3)
        # [N, heads, keys, queries]; each column sums to one.
        scores = self.node("MatMul", self.node("Transpose", keys, perm=[0, 1, 3, 2]), queries)
        shares = self.node("Softmax", self.node("Mul", scores, self.constant("scaling", width**-0.5)), axis=2)
        joined = self.node("Reshape", self.node("MatMul", values, shares), self.node("Shape", x))
        return self.node("Add", x, self.conv(joined, f"{name}.project"))

    def split(self, x: str, parts: int) -> list[str]:
        outputs = [f"t{len(self.nodes)}_{part}" for part in range(parts)]
        self.nodes.append(helper.make_node("Split", [x], outputs, axis=1, num_outputs=parts))
        return outputs

    def doubled(self, x: str) -> str:
        scales = self.constant("double", [1, 1, 2, 2])
        return self.node("Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
                         nearest_mode="floor")

    def shuffled(self, x: str) -> str:
        return self.node("DepthToSpace", x, blocksize=2, mode="CRD")

    def sum_relu(self, a: str, b: str) -> str:
        return self.node("Relu", self.node("Add", a, b))

    def encoder(self, x: str) -> list[str]:
        x, taps, block = self.conv(x, "enc.stem.conv", "relu6", 2), [], 0
        for repeats, first_stride in STAGES:
            for repeat in range(repeats):
                x = self.inverted_residual(x, f"enc.blocks.{block}", first_stride if repeat == 0 else 1)
                if block in TAPS:
                    taps.append(x)
                block += 1
        return taps

    def network(self, x: str) -> str:
        f1, f2, f3, f4, f5 = self.encoder(x)
        p5 = self.conv(f5, "in5.conv", "relu")
        p5 = self.sum_relu(p5, self.conv(self.node("GlobalAveragePool", p5), "gp.conv"))
        for index, dilation in enumerate((1, 2, 4)):
            p5 = self.separable(p5, f"ctx.{index}", dilation)
        p5 = self.attention(p5, "attention")
        p4 = self.sum_relu(self.doubled(self.conv(p5, "top5.conv")), self.conv(f4, "lat4.conv"))
        p4 = self.separable(self.separable(p4, "d4.0"), "d4.1", 2)
        p3 = self.sum_relu(self.doubled(p4), self.conv(f3, "lat3.conv"))
        p3 = self.separable(self.separable(p3, "d3.0"), "d3.1")
        p2 = self.sum_relu(self.doubled(self.conv(p3, "top3.conv")), self.conv(f2, "lat2.conv"))
        p2 = self.conv(self.conv(p2, "d2.0.conv", "relu"), "d2.1.conv", "relu")
        p1 = self.sum_relu(self.shuffled(self.conv(p2, "up2.conv")), self.conv(f1, "lat1.conv"))
        return self.node("Sigmoid", self.shuffled(self.conv(self.conv(p1, "d1.conv", "relu"), "head")))

    def undo_rembg(self, x: str) -> str:
        """From rembg's input of 320 pixels a side to the network's."""
        scale = 2 * np.array(IMAGENET_DEVIATION).reshape(1, 3, 1, 1)
        shift = 2 * np.array(IMAGENET_MEAN).reshape(1, 3, 1, 1) - 1
        x = self.node("Add", self.node("Mul", x, self.constant("scale", scale)), self.constant("shift", shift))
        sizes = self.constant("sizes", [1, 3, SIDE, SIDE], np.int64)
        return self.node("Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")


def model(tensors: dict[str, np.ndarray], for_rembg: bool) -> onnx.ModelProto:
    """The checked ONNX model of these weights."""
    graph = Graph(dict(tensors))
    graph.network(graph.undo_rembg("image") if for_rembg else "image")
    if graph.tensors:
        raise SystemExit(f"tensors without a layer: {sorted(graph.tensors)}")
    graph.nodes[-1].output[0] = "mask"
    batch, side = (1, REMBG_SIDE) if for_rembg else ("batch", SIDE)
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 3, side, side])]
    outputs = [helper.make_tensor_value_info("mask", TensorProto.FLOAT, [batch, 1, SIDE, SIDE])]
    made = helper.make_graph(graph.nodes, "fgnet", inputs, outputs, list(graph.constants.values()))
    proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("weights", type=Path)
    arguments.add_argument("output", type=Path)
    arguments.add_argument("--rembg", action="store_true", help="with the input of rembg's session u2net_custom")
    chosen = arguments.parse_args()
    onnx.save(model(load(chosen.weights), chosen.rembg), chosen.output)


if __name__ == "__main__":
    main()
