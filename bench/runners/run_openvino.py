"""Runs OpenVINO's CPU plugin with Hugging Face's tokenizers, as run_onnxruntime.py runs onnxruntime."""

import collections
import threading

import openvino
import protocol
import run_onnxruntime
from run_onnxruntime import ARGUMENTS

Input = collections.namedtuple("Input", "name")

# A file beside the ONNX model, and the precision of products that the file leaves in floats.
SETTINGS = {"f32": ("onnx/model.onnx", "f32"), "bf16": ("onnx/model.onnx", "bf16"),
            "int8": ("openvino/int8.xml", "f32"), "int8-bf16": ("openvino/int8.xml", "bf16")}


class Session:
    """Looks like a session of onnxruntime. Each thread that calls it has a request of its own."""

    def __init__(self, threads, streams):
        file, precision = SETTINGS[ARGUMENTS.dtype]
        self.compiled = openvino.Core().compile_model(
            f"{ARGUMENTS.model}/{file}", "CPU",
            {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": streams, "INFERENCE_PRECISION_HINT": precision,
             "ENABLE_HYPER_THREADING": False, "ENABLE_CPU_PINNING": False})
        self.inputs = [Input(entry.any_name) for entry in self.compiled.inputs]
        self.own = threading.local()

    def get_inputs(self):
        return self.inputs

    def run(self, _outputs, inputs):
        if not hasattr(self.own, "request"):
            self.own.request = self.compiled.create_infer_request()
        self.own.request.infer(inputs, share_inputs=True)
        return [self.own.request.get_output_tensor(0).data]


class Runner(run_onnxruntime.Runner):
    packages = ("openvino", "tokenizers")

    def load(self):
        return {**super().load(), "openvino": openvino.__version__}

    def open_session(self, threads):
        return Session(threads, 1)

    def session_of_callers(self):
        if self.single is self.session:
            self.single = Session(ARGUMENTS.threads, ARGUMENTS.threads)
        return self.single


if __name__ == "__main__":
    protocol.serve(Runner(), ARGUMENTS.texts)
