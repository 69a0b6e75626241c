# SPDX-License-Identifier: Apache-2.0
# Rules that run the tests, here, under sanitizers and for other machines. tests/README.md describes their use. Programs
# of C tests are built by the flavours of the Makefile.

# ---- tests of the C code in WebAssembly -------------------------------------------------------------

# They are programs for node. Their extension is .cjs because package.json says "type": "module".
WASM_TESTS := $(patsubst tests/%.c,%,$(wildcard tests/kernels/test_*.c))
WASM_TEST_SUPPORT := tests/support/guarded.c tests/support/sampling.c \
                     $(filter-out $(TEST_FILES),$(wildcard tests/kernels/*.c))
# cmocka.h would define uintptr_t differently from Emscripten. Higher levels than -O1 need a JavaScript
# minifier.
WASM_TEST_FLAGS = -Itests -isystem .tools/cmocka/include -DHAVE_UINTPTR_T
WASM_TEST_LINK = -O1 -sNODERAWFS -sALLOW_MEMORY_GROWTH -sSTACK_SIZE=1MB -sEXIT_RUNTIME $(WASM_C_ONLY)

define wasm_tests
TESTED_$(1) := $$(foreach part,kernels quant attention,$$(foreach folder,$$(sort simd128 $(1)),\
                   $$(filter build/wasm/$$(folder)/src/$$(part)/% build/wasm/generate-$$(folder)/src/$$(part)/%, \
                       $$(OBJECTS_generate-$(1))))) \
               $$(call wasm_objects,,$(1),$$(addprefix src/,base/memory.c base/status.c base/utf8.c base/workspace.c \
                   products/native.c) $$(WASM_TEST_SUPPORT)) build/wasm/cmocka.o
TESTS_wasm_$(1) := $$(WASM_TESTS:%=build/wasm/$(1)/tests/%.cjs)

build/wasm/$(1)/tests/%.o: tests/%.c Makefile tests/rules.mk | .tools/stamp/wasm-cc .tools/stamp/cmocka
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/wasm-cc $$(WASM_COMMON) $$(WASM_$(1)) $$(WASM_TEST_FLAGS) $$(OBJECT)

$$(TESTS_wasm_$(1)): build/wasm/$(1)/tests/%.cjs: build/wasm/simd128/tests/%.o $$(TESTED_$(1))
	@mkdir -p $$(@D)
	$$(SAY) LINK $$@
	$$(Q).tools/bin/emcc $$(WASM_TEST_LINK) $$^ -o $$@

.SECONDARY: $$(WASM_TESTS:%=build/wasm/simd128/tests/%.o) $$(TESTED_$(1))
-include $$(patsubst %.o,%.d,$$(WASM_TESTS:%=build/wasm/simd128/tests/%.o) $$(TESTED_$(1)))
endef

build/wasm/cmocka.o: | .tools/stamp/wasm-cc .tools/stamp/cmocka
	@mkdir -p $(@D)
	$(SAY) EMCC $@
	$(Q).tools/bin/wasm-cc -O1 -w -DHAVE_CONFIG_H -DHAVE_UINTPTR_T -I.tools/cmocka/src \
	    -I.tools/cmocka/include -c .tools/cmocka/src/cmocka.c -o $(NEW) $(MOVE)

$(eval $(call wasm_tests,simd128))
$(eval $(call wasm_tests,relaxed))

# ---- how tests run ----------------------------------------------------------------------------------

# A test is a phony target run/NAME. tests/run.py runs it, keeps its output in build/test-results and prints one line.
# make runs as many at a time as it has jobs.
RUN = $(Q)python3 tests/run.py test

# Long tests run to their end natively, and those of malformed input under asan too. Other builds sample them.
SAMPLED = --sampled

# $(call run_each,GROUP,FLAVOUR,TESTS,OPTIONS,COMMAND,EXTENSION): targets run/GROUP/TEST, listed in RUNS_GROUP, which run
# COMMAND (an emulator, variables or nothing) with the program of the test.
define run_each
RUNS_$(1) += $(patsubst %,run/$(1)/%,$(3))
.PHONY: $(patsubst %,run/$(1)/%,$(3))
$(patsubst %,run/$(1)/%,$(3)): run/$(1)/%: build/$(2)/tests/%$(6)
	$$(RUN) $(4) $(1)/$$* -- $(5) $$<
endef

# Runs the fuzz targets of a flavour on their seeds and on the inputs in tests/fuzz/corpus.
define run_corpus
RUNS_corpus-$(1) := $(FUZZERS:fuzz_%=run/$(1)/corpus/%)
.PHONY: $$(RUNS_corpus-$(1))
$$(RUNS_corpus-$(1)): run/$(1)/corpus/%: build/$(1)/replay_% build/$(1)/seeds-written/made
	$$(RUN) $(1)/corpus/$$* -- env ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1 \
	    $$< build/$(1)/seeds-written/$$* tests/fuzz/corpus/$$*

build/$(1)/seeds-written/made: build/$(1)/seeds
	$$(Q)rm -rf $$(@D) && $$< $$(@D) > /dev/null && touch $$@
endef

# ---- make test --------------------------------------------------------------------------------------

.PHONY: test test-all test-parts test-others test-c test-corpus test-wasm test-js test-oracle test-example test-torch
.PHONY: test-slow set-up-test set-up-js set-up-torch

# "make test" samples long tests and leaves slow ones out; "make test-all" runs everything. CI runs all tests, and each
# time a fifth of the long and slow ones: WISP_TURN=N/5 chooses it. tests/run.py and the tests read these variables too.
# Within .ci/run (WISP_STEPS), whose report is of all its steps, "make test" begins and ends no report of its own.
test:
	$(Q)python3 tools/check_programs.py node npm
	@echo 'make test: about $(TEST_MINUTES) on $(JOBS_HERE), tools included that are not there yet'
	$(Q)$(if $(WISP_STEPS),,python3 tests/run.py begin)
	$(Q)$(MAKE) --no-print-directory set-up-test native compile-native
	$(Q)$(MAKE) --no-print-directory -k test-parts$(if $(WISP_STEPS),,; made=$$?; python3 tests/run.py report && exit $$made)

test-all: export WISP_TEST_ALL = 1
test-all:
	$(Q)python3 tests/run.py begin
	$(Q)$(MAKE) --no-print-directory -k test-parts run/counts test-slow; made=$$?; python3 tests/run.py report && exit $$made

test-parts: test-others test-js
test-others: run/uses test-c test-corpus test-example test-wasm test-oracle test-tools test-python

# Tests of the tools that fetch tools and run tests.
RUNS_tools := $(patsubst tests/tools/test_%.py,run/tools/%,$(wildcard tests/tools/*.py))
.PHONY: test-tools $(RUNS_tools)
run/tools/models_page: build/wisp
$(RUNS_tools): run/tools/%: tests/tools/test_%.py
	$(RUN) tools/$* -- python3 $<
test-tools: $(RUNS_tools)

# Compares the instructions that the kernels execute with the recorded ones.
COUNTS := python3 tests/kernels/counts.py build/native/tests/kernels/test_kernels
.PHONY: run/counts record-counts
run/counts: build/native/tests/kernels/test_kernels
	$(RUN) counts -- $(COUNTS)
record-counts: build/native/tests/kernels/test_kernels
	$(COUNTS) --record

JOBS_HERE = $(shell nproc) core$(if $(filter 1,$(shell nproc)),,s)
TEST_MINUTES = $(shell expr 20 / $$(nproc) + 2) minutes

# The tools of make test. Browsers are left out if they cannot be had.
set-up-test:
	$(Q)$(SETUP) cmocka wuffs emcc wasm-cc node_modules python
	$(Q)$(SETUP) chromium curl civetweb $(OPTIONAL)

# CI has all tools.
OPTIONAL = $(if $(CI),,|| true)

$(eval $(call run_each,native,native,$(TESTS)))
$(eval $(call run_corpus,native))
$(RUNS_native): build/wisp build/native/wisp-refusing
test-c: $(RUNS_native)
test-corpus: $(RUNS_corpus-native)

# Node 20 needs a flag for relaxed SIMD; later versions do not.
NODE_RELAXED := $(shell node --v8-options 2> /dev/null | grep -o -m1 -e '--experimental-wasm-relaxed-simd')

$(eval $(call run_each,wasm/simd128,wasm/simd128,$(WASM_TESTS),,node,.cjs))
$(eval $(call run_each,wasm/relaxed,wasm/relaxed,$(WASM_TESTS),,node $(NODE_RELAXED),.cjs))
test-wasm: $(RUNS_wasm/simd128) $(RUNS_wasm/relaxed)

# Some tests need other Nodes or browsers, and say so if they are missing. CI has all of them.
RUNS_js := $(patsubst tests/js/%.test.mjs,run/js/%,$(wildcard tests/js/*.test.mjs))
.PHONY: $(RUNS_js)
$(RUNS_js): run/js/%: tests/js/%.test.mjs build/wisp build/wisp.node wasm set-up-js
	$(RUN) js/$* -- node --test-reporter=spec $<
run/js/guides: build/python/ready
run/js/images: build/libwisp-images.so
test-js: $(RUNS_js)

set-up-js: | .tools/stamp/node_modules .tools/stamp/python
	$(Q)$(SETUP) chromium curl civetweb $(if $(WISP_TEST_ALL),nodes firefox) $(OPTIONAL)

# Compares the tokenizer and the codecs with Hugging Face's, neurons as rows with the gguf package, and more
# (tests/oracle/README.md). Each script is run with these programs.
TOKENIZE_DRIVER := build/native/tests/oracle/tokenize_driver
CODEC_DRIVER := build/native/tests/oracle/codec_driver
LOGITS_DRIVER := build/native/tests/oracle/logits_driver
CHAT_DRIVER := build/native/tests/oracle/chat_driver
JINJA_DRIVER := build/native/tests/oracle/jinja_driver
NEEDLES_DRIVER := build/native/tests/oracle/needles_driver
ORACLE_tokenizer = $(TOKENIZE_DRIVER)
ORACLE_codecs = $(CODEC_DRIVER)
ORACLE_codec_folders = $(CODEC_DRIVER) build/wisp
ORACLE_vocabularies = $(CODEC_DRIVER)
ORACLE_jinja = $(JINJA_DRIVER) $(if $(WISP_TEST_ALL),--published .tools/templates)
ORACLE_neurons = build/wisp
ORACLE_chunks = build/wisp
ORACLE_indexes = build/wisp
ORACLE_quantise = build/wisp $(LOGITS_DRIVER)
ORACLE_bitnet = build/wisp
ORACLE_induction = $(NEEDLES_DRIVER) build/wisp
RUNS_oracle := $(addprefix run/oracle/,tokenizer codecs codec_folders vocabularies jinja neurons chunks indexes quantise \
    bitnet induction)

.PHONY: $(RUNS_oracle) run/oracle/unicode run/oracle/grammars run/oracle/schemas
$(RUNS_oracle): run/oracle/%: tests/oracle/%.py $(TOKENIZE_DRIVER) $(CODEC_DRIVER) $(LOGITS_DRIVER) $(JINJA_DRIVER) \
    $(NEEDLES_DRIVER) build/wisp | .tools/stamp/python
	$(RUN) oracle/$* -- .tools/bin/python $< $(ORACLE_$*)
test-oracle: $(RUNS_oracle)

run/oracle/unicode: | .tools/stamp/python
	$(RUN) oracle/unicode -- .tools/bin/python tools/generate_unicode.py --check --download

run/oracle/grammars: build/wisp | .tools/stamp/sbom
	$(RUN) oracle/grammars -- .tools/bin/python-sbom tests/oracle/grammars.py build/wisp

SCHEMA_DRIVER := build/native/tests/oracle/schema_driver
run/oracle/schemas: $(SCHEMA_DRIVER) | .tools/stamp/sbom
	$(RUN) oracle/schemas -- .tools/bin/python-sbom tests/oracle/schemas.py $<

# With PyTorch: decoders of random weights and chat formats beside transformers; tools/train_*.py on tiny models, whose
# results are compared in wisp and transformers; tiny models beside sentence-transformers, a sample of what
# campaign-models tries.
TORCH_decoders = $(LOGITS_DRIVER)
TORCH_decoder_folders = $(LOGITS_DRIVER) build/wisp
TORCH_quantise_texts = build/wisp
TORCH_codec_folders = $(CODEC_DRIVER) build/wisp vocab
TORCH_mmlu = build/wisp
TORCH_smollm2 = build/wisp $(CODEC_DRIVER) $(LOGITS_DRIVER)
TORCH_chat = $(CHAT_DRIVER)
TORCH_real_encoders = build/wisp
TORCH_real_onnx = build/wisp
TORCH_judge = build/wisp
TORCH_train_relu = build/wisp
TORCH_train_ternary = build/wisp
TORCH_train_blocks = build/wisp
TORCH_models = build/wisp --seed 1 --cases 300
RUNS_torch := $(addprefix run/torch/,models decoders decoder_folders quantise_texts codec_folders mmlu chat smollm2 \
    real_encoders real_onnx judge train_relu train_ternary train_blocks)

.PHONY: $(RUNS_torch)
$(RUNS_torch): run/torch/%: tests/oracle/%.py $(LOGITS_DRIVER) $(CODEC_DRIVER) $(CHAT_DRIVER) build/wisp set-up-torch
	$(RUN) --needs .tools/bin/python-torch torch/$* -- .tools/bin/python-torch $< $(TORCH_$*)
run/torch/models run/torch/real_encoders run/torch/real_onnx: override RUN += --needs .tools/sentence
test-torch: $(RUNS_torch)

set-up-torch:
	$(Q)$(SETUP) python torch sentence $(OPTIONAL)

# ---- campaigns and peers -----------------------------------------------------------------------------

# Looks for what breaks the package: damaged models, memory that does not grow, traps, killed workers.
# CAMPAIGN=0.1 makes it ten times shorter; WISP_SEED=... repeats one.
CAMPAIGN = 1
.PHONY: campaign-js
campaign-js: build/wisp wasm | .tools/stamp/node_modules
	$(Q)$(SETUP) chromium firefox $(if $(CI),,|| true)
	WISP_TEST_ALL=1 WISP_CAMPAIGN=$(CAMPAIGN) node --test --test-concurrency=1 tests/js/campaign*.test.mjs tests/js/browsers.test.mjs

# Installs real bundlers, runtimes and compilers from npm, and uses the package with each: "make compat
# ARGS='vite5-dev next-build'" with some of them. docs/compat.md is the table of them.
.PHONY: compat
compat: wasm | .tools/stamp/node_modules
	$(Q)$(SETUP) chromium nodes
	node tests/compat/run.mjs $(ARGS)

# Uses the program under clang's sanitizers as a careless or hostile user would. USES may hold more options of the script:
# make campaign-uses USES='--seconds 3600 --seed 5 --only schemas,grammars'
.PHONY: campaign-uses
campaign-uses: build/fuzz/wisp
	python3 tests/fuzz/uses.py $< $(USES)

# A sample of it.
.PHONY: run/uses
run/uses: build/wisp
	$(RUN) uses -- python3 tests/fuzz/uses.py $< --cases 110 --found build/uses-found

# Tries every option of a model alone, and as many combinations; SEED=N repeats a run, and MODELS may
# hold more options of the script: make campaign-models MODELS='--seconds 3600 --cases 1000000'
.PHONY: campaign-models
campaign-models: build/wisp
	$(Q)$(SETUP) python torch sentence
	.tools/bin/python-torch tests/oracle/models.py $< $(if $(SEED),--seed $(SEED)) $(MODELS)

.SECONDARY: $(patsubst %.c,build/native/%.o,$(wildcard tests/oracle/*_driver.c))
build/native/tests/oracle/%_driver: build/native/tests/oracle/%_driver.o $(LIB_native)
	$(SAY) LINK $@
	$(Q)$(CC) $(FLAGS_native) $^ $(LDLIBS) -o $(NEW) $(MOVE)

# Compares decoders and codecs with llama.cpp, which `npm ci` in bench/ brings. Not in CI: it downloads 60 MB.
.PHONY: test-llama
test-llama: build/wisp build/native/tests/oracle/logits_driver build/native/tests/oracle/codec_driver
	.tools/bin/python-torch tests/oracle/llama.py $< $(wordlist 2,3,$^) $(ARGS)

# Compiles the program at the top of wisp.h as its readers would, and runs it.
.PHONY: run/example
run/example: build/example
	$(RUN) example -- $< models/wisp-default.gguf
test-example: run/example

build/example.c: src/wisp.h
	$(Q)sed -n '/^ \*     #include <stdio.h>/,/^ \*     }$$/s/^ \*     \{0,1\}//p' $< > $@

build/example: build/example.c build/libwisp.a
	$(Q)$(CC) -std=c11 $(WARNINGS) -Isrc $^ $(LDLIBS) -o $(NEW) $(MOVE)

# ---- other builds -----------------------------------------------------------------------------------

.PHONY: asan ubsan tsan m32 aarch64 musl big-endian windows reproducible valgrind coverage

# clang's sanitizers also watch the vector kernels, which asan leaves out.
$(eval $(call run_each,ubsan,fuzz,$(addprefix kernels/,test_kernels test_blocks test_attention test_attention_policies),$(SAMPLED)))
$(eval $(call run_corpus,fuzz))
ubsan: $(RUNS_ubsan) $(RUNS_corpus-fuzz)

MALFORMED := $(filter malformed/%,$(TESTS))
$(eval $(call run_each,asan,asan,$(MALFORMED),,env WISP_PROGRAM=build/asan/wisp))
$(eval $(call run_each,asan,asan,$(filter-out $(MALFORMED),$(TESTS)),$(SAMPLED),env WISP_PROGRAM=build/asan/wisp))
$(eval $(call run_corpus,asan))
$(RUNS_asan): build/asan/wisp
asan: $(RUNS_asan) $(RUNS_corpus-asan)

# tsan runs the tests in which several threads use the same memory.
TSAN_TESTS := $(addprefix unit/,test_models test_embed test_generate test_cold test_experts)
$(eval $(call run_each,tsan,tsan,$(TSAN_TESTS),$(SAMPLED)))
tsan: $(RUNS_tsan)

# These tests depend on the width of size_t or on the instruction set.
PORTED := $(WASM_TESTS) \
          $(addprefix unit/,test_models test_portable test_tokenizer test_nomic test_neurons) \
          $(addprefix malformed/,test_malformed_gguf test_malformed_tokenizer test_malformed_hf test_malformed_neurons)
$(eval $(call run_each,m32,m32,$(PORTED),$(SAMPLED)))
m32: $(RUNS_m32)

# One CPU has int8 matrix products, one dot products only, and one neither; SETS_* run on each.
ARM_CPUS := max neoverse-n1 cortex-a72
SETS_max := neon-i8mm, neon, scalar
SETS_neoverse-n1 := neon, scalar
SETS_cortex-a72 := scalar
# These tests run on every CPU; all others do not depend on it and run once.
ON_EVERY_CPU := $(addprefix kernels/,test_kernels test_attention test_attention_policies) unit/test_models unit/test_portable

$(eval $(call run_each,aarch64,aarch64,$(filter-out $(ON_EVERY_CPU),$(PORTED)),$(SAMPLED),.tools/bin/qemu-aarch64))
$(foreach cpu,$(ARM_CPUS),\
    $(eval $(call run_each,aarch64/$(cpu),aarch64,$(ON_EVERY_CPU),$(SAMPLED),.tools/bin/qemu-aarch64 -cpu $(cpu))))
RUNS_arm_sets := $(ARM_CPUS:%=run/aarch64/%/sets)
.PHONY: $(RUNS_arm_sets)
$(RUNS_arm_sets): run/aarch64/%/sets: build/aarch64/wisp
	$(RUN) aarch64/$*/sets -- sh -c ".tools/bin/qemu-aarch64 -cpu $* $< --version | \
	    grep -Fx 'kernel sets: $(SETS_$*) (the first is the default)'"
aarch64: $(RUNS_aarch64) $(RUNS_arm_sets) $(foreach cpu,$(ARM_CPUS),$(RUNS_aarch64/$(cpu)))

# musl's tests run in full but for those that take minutes and do not depend on the C library, and for
# locales, which all have the decimal point in musl.
MUSL_TESTS := $(filter-out $(addprefix unit/,test_golden test_locale) \
                $(addprefix malformed/,test_malformed_sweeps test_malformed_hf_sweeps test_crash), $(TESTS))
$(eval $(call run_each,musl,musl,$(MUSL_TESTS),$(SAMPLED),env WISP_PROGRAM=build/musl/wisp))
$(RUNS_musl): build/musl/wisp
# The static program of a release has CivetWeb in it.
RUNS_musl += run/musl/serve
.PHONY: run/musl/serve
run/musl/serve: build/addon/linux-x64.program
	$(RUN) musl/serve -- env WISP_PROGRAM=$(CURDIR)/$< node --test tests/js/serve.test.mjs tests/js/serve-options.test.mjs
musl: $(RUNS_musl)

# These tests read files, tokenize, and embed with tiny models, on a machine whose numbers have their
# low byte last. Then both machines write the same files. The emulator takes minutes for tests with the
# default model and with long texts; both are left out.
BIG_ENDIAN_TESTS := kernels/test_blocks kernels/test_attention_policies \
    $(addprefix unit/,test_file test_hf_tokenizer test_models test_neuron_store test_nomic test_releases \
        test_tokenizer test_tokenizer_metadata test_unicode test_writing) \
    $(addprefix malformed/,test_malformed_gguf test_malformed_tokenizer test_malformed_hf test_malformed_neurons)
$(eval $(call run_each,big-endian,big-endian,$(BIG_ENDIAN_TESTS),$(SAMPLED),.tools/bin/qemu-s390x))
.PHONY: run/big-endian/same-files
run/big-endian/same-files: build/big-endian/wisp build/wisp
	$(RUN) big-endian/same-files -- \
	    tests/oracle/same_files.sh build/wisp '.tools/bin/qemu-s390x build/big-endian/wisp' build/big-endian
big-endian: $(RUNS_big-endian) run/big-endian/same-files

# On Windows the library runs, without the program: a C test of its files, the default model in every kernel set, the Python
# package with its own tests, and the package in Node. Wine gives Python and Node no pipes that they take for files, so they
# write to files.
windows: run/windows/test_files run/windows/embed run/windows/python build/addon/win32-x64.node wasm
	.tools/bin/node-windows tests/windows/package.mjs build/addon/win32-x64.node build/windows/package.json \
	    < /dev/null > build/windows/package.log 2>&1; status=$$?; cat build/windows/package.json; exit $$status

.PHONY: run/windows/test_files run/windows/embed run/windows/python
run/windows/test_files: build/windows/test_files.exe
	$(RUN) windows/test_files -- .tools/bin/wine $<
run/windows/embed: build/windows/embed.exe
	$(RUN) windows/embed -- .tools/bin/wine $< models/wisp-default.gguf tests/data/golden-default.jsonl tests/data/golden-default.f32

build/windows/test_files.exe build/windows/embed.exe: build/windows/%.exe: build/windows/tests/windows/%.o build/windows/cmocka.o \
    $(LIB_windows)
	$(SAY) LINK $@
	$(Q)$(CC_windows) $(FLAGS_windows) $(LINK_windows) $^ $(LDLIBS) -o $(NEW) $(MOVE)

# The wheel as it is, in Python for Windows, with the tests of the package that start no program.
run/windows/python: build/windows/in_files.exe wheel-win32-x64 | .tools/stamp/python-windows
	$(RUN) windows/python -- python3 tests/windows/package.py $< build/wheels/wisp_engine-$(VERSION)-py3-none-win_amd64.whl

build/windows/in_files.exe: tests/windows/in_files.c | .tools/stamp/windows
	@mkdir -p $(@D)
	$(SAY) CC $@
	$(Q)$(CC_windows) -std=c11 -O2 $(WARNINGS) -municode -static $< -o $(NEW) $(MOVE)

# Checks that the list of all that is built in and shipped is valid and current (tools/sbom.py).
.PHONY: sbom
sbom: build/libwisp.so wasm | .tools/stamp/sbom
	$(RUN) sbom -- .tools/bin/python-sbom tools/sbom.py --check

# Builds and runs with other C libraries, machines and folders. CI runs each of them but for windows,
# whose compiler and Wine take 1.1 GB.
.PHONY: test-portable
test-portable: musl big-endian windows reproducible sbom

# Builds all that is shipped a second time, in another folder, and compares the bytes.
reproducible: native wasm package
	$(RUN) reproducible -- python3 tools/check_reproducible.py

VALGRIND := .tools/bin/valgrind -q --error-exitcode=9 --leak-check=full
.PHONY: run/valgrind/embed run/valgrind/test_models
run/valgrind/embed: build/debug/wisp | .tools/stamp/valgrind
	$(RUN) valgrind/embed -- $(VALGRIND) $< embed -m models/wisp-default.gguf --dimensions 4 --text 'one text' \
	    --text 'and another one'
run/valgrind/test_models: build/debug/tests/unit/test_models | .tools/stamp/valgrind
	$(RUN) valgrind/test_models -- $(VALGRIND) $<
valgrind: run/valgrind/embed run/valgrind/test_models

# Prints a line for each source file: how much of it the C tests reach.
$(eval $(call run_each,coverage,coverage,$(TESTS),,env WISP_PROGRAM=build/coverage/wisp))
$(RUNS_coverage): build/coverage/wisp
coverage: $(RUNS_coverage)
	python3 tools/coverage.py build/coverage

# ---- CI ---------------------------------------------------------------------------------------------

# What takes long and rarely finds what nothing else does takes turns: part SLOW_N of it runs with WISP_TURN=N/5, all of
# it without WISP_TURN. tests/run.py divides the long tests of the other parts likewise, and the Makefile the slow linters.
SLOW_0 := m32 big-endian run/clickhouse test-cuda-shim cuda-compile
SLOW_1 := asan
SLOW_2 := musl valgrind aarch64
SLOW_3 := ubsan tsan reproducible run/oracle/unicode run/oracle/grammars run/oracle/schemas
SLOW_4 := test-torch run/wheel
TURN := $(firstword $(subst /, ,$(WISP_TURN)))
SLOW := $(if $(TURN),$(SLOW_$(TURN)),$(foreach turn,0 1 2 3 4,$(SLOW_$(turn))))
test-slow: $(SLOW)

test-ci: run/counts test-slow sbom lint

# What tools/setup.py sets up for a part that takes turns.
TOOLS_FOR_test-torch := torch sentence
TOOLS_FOR_run/clickhouse := clickhouse
TOOLS_FOR_cuda-compile := cuda
$(foreach part,m32 big-endian aarch64 musl valgrind,$(eval TOOLS_FOR_$(part) := $(part)))
TOOLS_FOR_musl += civetweb-source

.PHONY: test-ci set-up-ci
set-up-ci:
	$(Q)$(SETUP) cmocka wuffs emcc wasm-cc node_modules python chromium firefox nodes curl civetweb clang cppcheck sbom wheel \
	    $(foreach part,$(SLOW),$(TOOLS_FOR_$(part)))

# The programs of a part, without running them: make compile-asan.
COMPILED_native := native images addon wasm $(TESTS_native) build/native/wisp-refusing $(REPLAYS_native) build/native/seeds \
    $(TOKENIZE_DRIVER) $(CODEC_DRIVER) $(LOGITS_DRIVER) $(CHAT_DRIVER) build/example
COMPILED_test-wasm := $(TESTS_wasm_simd128) $(TESTS_wasm_relaxed)
COMPILED_asan := $(TESTS_asan) build/asan/wisp $(REPLAYS_asan) build/asan/seeds
COMPILED_ubsan := $(REPLAYS_fuzz) build/fuzz/seeds $(addprefix build/fuzz/tests/kernels/,test_kernels test_blocks test_attention)
COMPILED_tsan := $(TSAN_TESTS:%=build/tsan/tests/%)
COMPILED_m32 := $(PORTED:%=build/m32/tests/%)
COMPILED_aarch64 := $(PORTED:%=build/aarch64/tests/%) build/aarch64/wisp
COMPILED_musl := $(MUSL_TESTS:%=build/musl/tests/%) build/musl/wisp build/addon/linux-x64.program
COMPILED_big-endian := $(BIG_ENDIAN_TESTS:%=build/big-endian/tests/%) build/big-endian/wisp
COMPILED_valgrind := build/debug/wisp build/debug/tests/unit/test_models
COMPILED := native test-wasm asan ubsan tsan m32 aarch64 musl big-endian valgrind
.PHONY: $(COMPILED:%=compile-%)
$(foreach part,$(COMPILED),$(eval compile-$(part): $(COMPILED_$(part))))

# All tests by the names of their targets.
.PHONY: list-tests
list-tests:
	@printf '%s\n' $(RUNS_native) $(RUNS_corpus-native) run/example $(RUNS_wasm/simd128) $(RUNS_wasm/relaxed) \
	    $(RUNS_oracle) run/oracle/unicode run/oracle/grammars run/uses $(RUNS_torch) $(RUNS_tools) $(RUNS_js) $(RUNS_asan) \
	    $(RUNS_corpus-asan) $(RUNS_ubsan) $(RUNS_corpus-fuzz) $(RUNS_tsan) $(RUNS_m32) $(RUNS_aarch64) $(RUNS_arm_sets) \
	    $(foreach cpu,$(ARM_CPUS),$(RUNS_aarch64/$(cpu))) $(RUNS_musl) $(RUNS_big-endian) run/big-endian/same-files \
	    run/valgrind/embed run/valgrind/test_models run/clickhouse run/counts

# All that .ci/run runs.
.PHONY: compile-ci
compile-ci: $(addprefix compile-,$(filter $(COMPILED),native test-wasm $(SLOW)))

# ---- fuzzing ----------------------------------------------------------------------------------------

# Each target looks for inputs that break it for SECONDS; tests/fuzz/README.md says more.
SECONDS = 60

.PHONY: fuzz $(FUZZERS)
fuzz: $(FUZZERS)

$(FUZZERS): %: build/fuzz/% build/fuzz/seeds
	@mkdir -p build/fuzz/corpus/$(@:fuzz_%=%)
	build/fuzz/seeds build/fuzz/corpus
	$< -max_total_time=$(SECONDS) -timeout=10 -print_final_stats=1 $(FUZZ_$@) \
	    -artifact_prefix=build/fuzz/$(@:fuzz_%=%)- build/fuzz/corpus/$(@:fuzz_%=%)

FUZZ_fuzz_json = -dict=tests/fuzz/json.dict
FUZZ_fuzz_folder = -dict=tests/fuzz/json.dict
FUZZ_fuzz_decoder = -dict=tests/fuzz/json.dict
FUZZ_fuzz_checkpoint = -dict=tests/fuzz/json.dict

$(FUZZERS:%=build/fuzz/%): build/fuzz/%: build/fuzz/tests/fuzz/%.o $(SUPPORT_fuzz) \
    $(filter-out %/main.o,$(CLI_fuzz)) $(LIB_fuzz)
	$(SAY) LINK $@
	$(Q)$(CC_fuzz) $(FLAGS_fuzz) $(WRAPPED) -fsanitize=fuzzer $^ $(LDLIBS) -ldl -o $(NEW) $(MOVE)

# Sweeps through faults, campaign-* targets and all fuzz targets in turns, for HOURS of processor time
# on JOBS cores; ARGS=--only-fuzz leaves the first two out. Ends with a summary and a smaller corpus.
HOURS = 8
JOBS = $(shell nproc)

.PHONY: campaign
campaign: | .tools/stamp/clang .tools/stamp/cmocka
	python3 tests/fuzz/campaign.py --hours $(HOURS) --jobs $(JOBS) $(ARGS)
