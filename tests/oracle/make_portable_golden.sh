#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes tests/data/golden-portable.f32: embeddings with the option `portable`, as the scalar kernels compute
# them, of the first 12 texts of golden-default.jsonl. Usage: make_portable_golden.sh build/wisp
set -e
cd "$(dirname "$0")/../data"
for model in ../../models/wisp-default.gguf models/cls12 models/mean-shards models/prompted models/nomic \
    models/deberta-v3 models/deberta-v2; do
    head -n 12 golden-default.jsonl |
        "$OLDPWD/$1" embed --portable --cpu scalar --input ndjson --format f32 -m "$model" -
done > golden-portable.f32
