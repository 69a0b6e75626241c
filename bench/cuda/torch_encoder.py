#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times encoders of MiniLM's and BERT-base's shape in PyTorch: f16, SDPA, no padding, ids and rows on the host.

Prints tokens per second of a batch, eager and compiled, as bench_device does for wisp.
"""

import argparse
import statistics
import time

import torch
from transformers import BertConfig, BertModel

MODELS = {
    "MiniLM-L6": BertConfig(hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12),
    "BERT-base": BertConfig(),
}


def embed(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    hidden = model(input_ids=ids).last_hidden_state
    return torch.nn.functional.normalize(hidden.float().mean(dim=1))


def measure(run, ids: torch.Tensor, runs: int) -> float:
    """Returns the median seconds from ids on the host to rows on the host."""
    seconds = []
    with torch.inference_mode():
        for i in range(runs + 5):
            start = time.perf_counter()
            run(ids.to("cuda", non_blocking=True)).cpu()
            if i >= 5:
                seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes long to start")
    options = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    torch.manual_seed(1)
    for name in options.models:
        model = BertModel._from_config(MODELS[name], attn_implementation="sdpa", add_pooling_layer=False).half().cuda().eval()
        assert model.config._attn_implementation == "sdpa"
        compiled = torch.compile(model)
        for texts in (1, 16, 128, 1024):
            ids = torch.randint(0, 30522, (texts, 128)).pin_memory()
            for kind, run in (("eager", model), ("compiled", compiled)):
                if kind == "compiled" and (options.no_compile or texts != 1024):
                    continue
                best = min(measure(lambda x, run=run: embed(run, x), ids, options.runs) for _ in range(2))
                print(f"{name} f16 {kind:8} {texts:4} x 128: {best * 1e3:8.3f} ms {texts * 128 / best / 1e6:7.2f} M tokens/s",
                      flush=True)


if __name__ == "__main__":
    main()
