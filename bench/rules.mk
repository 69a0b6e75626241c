# SPDX-License-Identifier: Apache-2.0
# Rules that build and run the benchmark. bench/README.md describes its use.

BENCH_PROTOCOL := bench/runners/protocol.c bench/runners/protocol.h
BENCH_CC = $(CC) -std=c11 -D_GNU_SOURCE -O3 $(WARNINGS) -Isrc

build/bench/wisp: bench/runners/wisp.c $(BENCH_PROTOCOL) build/libwisp.a
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(BENCH_CC) $(filter %.c %.a,$^) $(LDLIBS) -o $@

build/bench/sparse: bench/sparse/time.c build/libwisp.a
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(BENCH_CC) $^ $(LDLIBS) -o $@

# These look behind wisp.h, so they have the objects and not the library.
build/bench/ahead: bench/sparse/ahead.c $(LIB_native)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(BENCH_CC) $^ $(LDLIBS) -o $@

build/bench/kv_memory build/bench/attention_quality build/bench/pass_rows: build/bench/%: bench/generate/%.c $(LIB_native)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(BENCH_CC) $^ $(LDLIBS) -o $@

build/bench/calibrate: bench/runners/calibrate.c $(BENCH_PROTOCOL)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(BENCH_CC) $(filter %.c,$^) -lpthread -o $@

# ---- peaks of single instructions -----------------------------------------------------------------

PEAKS_x86_64 := avx2 avx_vnni avx512_vnni amx
PEAKS_aarch64 := neon_dot neon_i8mm
ISA_avx512_vnni = -mavx512f -mavx512vnni
ISA_neon_dot = $(ISA_neon)
PEAK_OBJECTS := $(patsubst %,build/bench/peak/%.o,peak $(PEAKS_$(MACHINE)))

build/bench/peak/%.o: bench/peak/%.c $(wildcard bench/peak/*.h)
	@mkdir -p $(@D)
	$(SAY) CC $@
	$(Q)$(BENCH_CC) $(ISA) -c $< -o $@

build/bench/peak/native: $(PEAK_OBJECTS)
	$(SAY) LINK $@
	$(Q)$(CC) $^ -o $@

# Links with -O1, because higher levels need a JavaScript minifier.
build/bench/peak/%.cjs: bench/peak/peak.c bench/peak/wasm.c bench/peak/peak.h bench/peak/probe.h | .tools/stamp/emcc
	@mkdir -p $(@D)
	$(SAY) EMCC $@
	$(Q)for file in peak wasm; do \
	    .tools/bin/emcc -std=c11 -D_GNU_SOURCE -O3 $(WARNINGS) $(WASM_$*) -c bench/peak/$$file.c \
	        -o $(@D)/$$file-$*.o || exit 1; \
	done
	$(Q).tools/bin/emcc -O1 -sENVIRONMENT=node $(WASM_C_ONLY) $(@D)/peak-$*.o $(@D)/wasm-$*.o -o $@

# ---- instructions of the Arm kernels --------------------------------------------------------------

# Builds the library for aarch64 with the flags of a release; the flavour aarch64 is for tests.
CC_arm = $(CC_aarch64)
FLAGS_arm = $(FLAGS_native)
MACHINE_arm := aarch64
COMPILER_arm := $(COMPILER_aarch64)
$(eval $(call flavour,arm))

build/bench/counts: bench/counts/calls.c $(LIB_arm)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(CC_arm) $(COMMON) $(FLAGS_arm) -static $(filter %.c %.o,$^) $(LDLIBS) -o $@

# Counts instructions under an emulator, on any machine. Prints JSON, then a table.
.PHONY: bench-neon-counts
bench-neon-counts: build/bench/counts
	@python3 bench/counts/neon.py $<

BENCH_PROGRAMS := build/bench/wisp build/bench/calibrate build/bench/peak/native \
                  build/bench/peak/simd128.cjs build/bench/peak/relaxed.cjs \
                  build/native/tests/kernels/test_kernels build/wasm/simd128/tests/kernels/test_kernels.cjs \
                  build/wasm/relaxed/tests/kernels/test_kernels.cjs

.PHONY: bench-programs
bench-programs: native addon wasm $(BENCH_PROGRAMS)

# ---- runs -----------------------------------------------------------------------------------------

BENCH_JSON := build/bench/results
# BENCH has options for the driver: make bench-peers BENCH="--quick --only 'wisp-int8,onnxruntime-*'"
BENCH =
PEERS = peers

.PHONY: bench bench-peers bench-quick bench-plot bench-results
bench: bench-programs
	python3 bench/set_up.py wisp
	python3 bench/driver.py --alone --json $(BENCH_JSON)/wisp.json $(BENCH)

bench-peers: bench-programs
	python3 bench/set_up.py
	python3 bench/driver.py --json $(BENCH_JSON)/$(PEERS).json $(BENCH)

bench-quick: override BENCH += --quick
bench-quick: PEERS = quick
bench-quick: bench-peers

# Measures wisp and two peers in Python in about five minutes, from a fresh clone.
.PHONY: bench-here
bench-here: native build/bench/wisp build/bench/calibrate
	python3 bench/here.py

bench-plot:
	python3 bench/plot.py $(BENCH_JSON)/peers.json bench/results

# Does both runs, then writes RESULTS.md and its pictures.
bench-results:
	$(MAKE) bench
	$(MAKE) bench-peers
	$(MAKE) bench-report

# Checks the types of the runners, for which the peers must be installed.
.PHONY: bench-types
bench-types:
	python3 bench/set_up.py node
	node_modules/.bin/tsc -p bench

.PHONY: bench-report
bench-report: bench-plot
	python3 bench/report.py $(BENCH_JSON) bench/RESULTS.md
# ---- equal bits -------------------------------------------------------------------------------------

build/bench/bits: bench/bits/bits.c build/libwisp.a
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(BENCH_CC) $^ $(LDLIBS) -o $@

# BITS has the models to hash: make bits BITS="twin.gguf minilm.gguf" (bench/bits/README.md)
BITS = models/wisp-default.gguf

.PHONY: bits
bits: build/bench/bits wasm
	$(SAY) HASH build/bench/bits.txt
	$(Q)build/bench/bits $(BITS) > build/bench/bits.txt
	$(Q)node $(NODE_RELAXED) bench/bits/bits.mjs $(filter %.gguf,$(BITS)) >> build/bench/bits.txt
