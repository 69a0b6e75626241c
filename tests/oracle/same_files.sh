#!/bin/sh
# Usage: same_files.sh PROGRAM ANOTHER FOLDER. Two builds of wisp, for different machines, must write the same files.
# Each argument may be a command of several words. FOLDER takes the files.
set -e
for type in f32 f16 q8_0 q4_0; do
	for input in tests/data/models/prompted tests/data/models/nomic tests/data/releases/0.1.0/nomic-lowrank.gguf; do
		for layout in --neurons --plain; do
			$1 convert "$input" "$3/one.gguf" --type "$type" "$layout"
			$2 convert "$input" "$3/other.gguf" --type "$type" "$layout"
			cmp "$3/one.gguf" "$3/other.gguf"
		done
	done
done
echo "the same files of every type"
