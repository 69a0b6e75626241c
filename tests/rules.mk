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
WASM_TEST_LINK = -O1 -sNODERAWFS -sALLOW_MEMORY_GROWTH -sSTACK_SIZE=1MB -sEXIT_RUNTIME

define wasm_tests
TESTED_$(1) := $$(foreach part,kernels quant attention,\
                   $$(filter build/wasm/$(1)/src/$$(part)/% build/wasm/generate-$(1)/src/$$(part)/%, \
                       $$(OBJECTS_generate-$(1)))) \
               $$(patsubst %,build/wasm/$(1)/src/base/%.o,memory status utf8 workspace) \
               $$(patsubst %.c,build/wasm/$(1)/%.o,$$(WASM_TEST_SUPPORT)) build/wasm/$(1)/cmocka.o
TESTS_wasm_$(1) := $$(WASM_TESTS:%=build/wasm/$(1)/tests/%.cjs)

build/wasm/$(1)/tests/%.o: tests/%.c Makefile tests/rules.mk | .tools/stamp/emcc .tools/stamp/cmocka
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/emcc $$(WASM_COMMON) $$(WASM_$(1)) $$(WASM_TEST_FLAGS) -c $$< -o $$@

build/wasm/$(1)/cmocka.o: | .tools/stamp/emcc .tools/stamp/cmocka
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/emcc -O1 -w -DHAVE_CONFIG_H -DHAVE_UINTPTR_T -I.tools/cmocka/src \
	    -I.tools/cmocka/include -c .tools/cmocka/src/cmocka.c -o $$@

$$(TESTS_wasm_$(1)): build/wasm/$(1)/tests/%.cjs: build/wasm/$(1)/tests/%.o $$(TESTED_$(1))
	$$(SAY) LINK $$@
	$$(Q).tools/bin/emcc $$(WASM_TEST_LINK) $$^ -o $$@

.SECONDARY: $$(WASM_TESTS:%=build/wasm/$(1)/tests/%.o) $$(TESTED_$(1))
-include $$(patsubst %.o,%.d,$$(WASM_TESTS:%=build/wasm/$(1)/tests/%.o) $$(TESTED_$(1)))
endef
$(eval $(call wasm_tests,simd128))
$(eval $(call wasm_tests,relaxed))

# ---- all tests --------------------------------------------------------------------------------------

.PHONY: test test-all test-others test-c test-corpus test-wasm test-js test-oracle test-train test-models
.PHONY: test-decoders test-example
test: test-others test-js
test-others: test-c test-corpus test-example test-wasm test-oracle test-train test-models test-decoders

# "make test" samples long tests and skips exhaustive ones; "make test-all", which CI runs, does
# everything. The tests read this variable too.
test-all: export WISP_TEST_ALL = 1
test-all: test

# $(call only_in_all,WHAT,COMMAND) runs a command in test-all and otherwise says that WHAT is skipped.
only_in_all = $(if $(WISP_TEST_ALL),$(2),@echo 'skipped: $(1): in make test-all')

# Runs the test programs of a flavour in one shell, and stops at the first that fails.
run_tests = @for test in $(1); do $(2) $$test || exit 1; done

# Long tests run to their end natively, and those of malformed input under asan too. Other builds sample them.
SAMPLED = env -u WISP_TEST_ALL

# Runs the fuzz targets of a flavour on their seeds and on the inputs in tests/fuzz/corpus.
define run_corpus
	@rm -rf build/$(1)/seeds-written
	@build/$(1)/seeds build/$(1)/seeds-written
	@export ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1; \
	for target in $(FUZZERS:fuzz_%=%); do \
	    build/$(1)/replay_$$target build/$(1)/seeds-written/$$target tests/fuzz/corpus/$$target || exit 1; \
	done
endef

test-c: $(TESTS_native) build/wisp build/native/wisp-refusing
	$(call run_tests,$(TESTS_native))

test-corpus: $(REPLAYS_native) build/native/seeds
	$(call run_corpus,native)

# Node 20 needs a flag for relaxed SIMD; later versions do not.
NODE_RELAXED = $(shell node --v8-options | grep -o -m1 -e '--experimental-wasm-relaxed-simd')

test-wasm: $(TESTS_wasm_simd128) $(TESTS_wasm_relaxed)
	$(call run_tests,$(TESTS_wasm_simd128),node)
	$(call run_tests,$(TESTS_wasm_relaxed),node $(NODE_RELAXED))

# Some tests need other Nodes or browsers, and say so where they are missing. CI has all of them.
test-js: build/wisp build/wisp.node wasm | .tools/stamp/node_modules .tools/stamp/python
	$(Q)$(SETUP) chromium curl $(if $(WISP_TEST_ALL),nodes firefox) $(if $(CI),,|| true)
	node --test --test-reporter=spec tests/js/*.test.mjs

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

# Compares the tokenizer and the codecs with Hugging Face's, the generated tables with their generator, and neurons
# as rows with the gguf package.
test-oracle: build/native/tests/oracle/tokenize_driver build/native/tests/oracle/codec_driver \
    build/native/tests/oracle/logits_driver build/wisp | .tools/stamp/python
	$(call only_in_all,the Unicode tables against their generator,\
	    .tools/bin/python tools/generate_unicode.py --check --download)
	.tools/bin/python tests/oracle/tokenizer.py $<
	.tools/bin/python tests/oracle/codecs.py build/native/tests/oracle/codec_driver
	.tools/bin/python tests/oracle/codec_folders.py build/native/tests/oracle/codec_driver build/wisp
	.tools/bin/python tests/oracle/neurons.py build/wisp
	.tools/bin/python tests/oracle/chunks.py build/wisp
	.tools/bin/python tests/oracle/indexes.py build/wisp
	$(call only_in_all,texts under grammars against jsonschema,\
	    $(SETUP) sbom && .tools/bin/python-sbom tests/oracle/grammars.py build/wisp)
	.tools/bin/python tests/oracle/quantise.py build/wisp build/native/tests/oracle/logits_driver
	.tools/bin/python tests/oracle/bitnet.py build/wisp

# Runs tools/train_*.py on tiny models, and compares their results in wisp and transformers.
test-train: build/wisp
	$(call only_in_all,tools/train_*.py on tiny models,\
	    $(SETUP) python torch $(if $(CI),,|| echo "skipped: PyTorch is absent"))
	$(if $(WISP_TEST_ALL),$(if $(CI),,test ! -x .tools/bin/python-torch ||) \
	    { .tools/bin/python-torch tests/oracle/train_relu.py $< && \
	    .tools/bin/python-torch tests/oracle/train_ternary.py $< && \
	    .tools/bin/python-torch tests/oracle/train_blocks.py $<; })

# Compares tiny models with sentence-transformers: a sample of what campaign-models tries.
test-models: build/wisp
	$(call only_in_all,tiny models against sentence-transformers,\
	    $(SETUP) python torch sentence $(if $(CI),,|| echo "skipped: sentence-transformers is absent"))
	$(if $(WISP_TEST_ALL),$(if $(CI),,test ! -e .tools/stamp/sentence ||) \
	    .tools/bin/python-torch tests/oracle/models.py $< --seed 1 --cases 300)

# Tries every option of a model alone, and as many combinations; SEED=N repeats a run, and MODELS may
# hold more options of the script: make campaign-models MODELS='--seconds 3600 --cases 1000000'
.PHONY: campaign-models
campaign-models: build/wisp
	$(Q)$(SETUP) python torch sentence
	.tools/bin/python-torch tests/oracle/models.py $< $(if $(SEED),--seed $(SEED)) $(MODELS)

# Compares decoders of random weights, and chat formats, with transformers.
test-decoders: build/native/tests/oracle/logits_driver build/native/tests/oracle/chat_driver build/wisp \
    build/native/tests/oracle/codec_driver
	$(call only_in_all,decoders against transformers,\
	    $(SETUP) python torch $(if $(CI),,|| echo "skipped: PyTorch is absent"))
	$(if $(WISP_TEST_ALL),$(if $(CI),,test ! -x .tools/bin/python-torch ||) \
	    { .tools/bin/python-torch tests/oracle/decoders.py $< && \
	    .tools/bin/python-torch tests/oracle/decoder_folders.py $< build/wisp && \
	    .tools/bin/python-torch tests/oracle/quantise_texts.py build/wisp && \
	    .tools/bin/python-torch tests/oracle/codec_folders.py build/native/tests/oracle/codec_driver build/wisp vocab && \
	    .tools/bin/python-torch tests/oracle/mmlu.py build/wisp && \
	    .tools/bin/python-torch tests/oracle/chat.py build/native/tests/oracle/chat_driver; })

.SECONDARY: $(patsubst %.c,build/native/%.o,$(wildcard tests/oracle/*_driver.c))
build/native/tests/oracle/%_driver: build/native/tests/oracle/%_driver.o $(LIB_native)
	$(SAY) LINK $@
	$(Q)$(CC) $(FLAGS_native) $^ $(LDLIBS) -o $@

# Compares decoders and codecs with llama.cpp, which `npm ci` in bench/ brings. Not in CI: it downloads 60 MB.
.PHONY: test-llama
test-llama: build/wisp build/native/tests/oracle/logits_driver build/native/tests/oracle/codec_driver
	.tools/bin/python-torch tests/oracle/llama.py $< $(wordlist 2,3,$^) $(ARGS)

# Compiles the program at the top of wisp.h as its readers would, and runs it.
test-example: build/example
	build/example models/wisp-default.gguf

build/example.c: src/wisp.h
	$(Q)sed -n '/^ \*     #include <stdio.h>/,/^ \*     }$$/s/^ \*     \{0,1\}//p' $< > $@

build/example: build/example.c build/libwisp.a
	$(Q)$(CC) -std=c11 $(WARNINGS) -Isrc $^ $(LDLIBS) -o $@

# clang's sanitizers also watch the vector kernels, which asan leaves out.
ubsan: $(addprefix build/fuzz/tests/kernels/,test_kernels test_blocks test_attention) $(REPLAYS_fuzz) build/fuzz/seeds
	$(call run_tests,$(filter build/fuzz/tests/%,$^),$(SAMPLED))
	$(call run_corpus,fuzz)

.PHONY: asan ubsan tsan m32 aarch64 musl big-endian windows reproducible valgrind coverage
asan: $(TESTS_asan) build/asan/wisp $(REPLAYS_asan) build/asan/seeds
	$(call run_tests,$(filter build/asan/tests/malformed/%,$(TESTS_asan)),WISP_PROGRAM=build/asan/wisp)
	$(call run_tests,$(filter-out build/asan/tests/malformed/%,$(TESTS_asan)),$(SAMPLED) WISP_PROGRAM=build/asan/wisp)
	$(call run_corpus,asan)

# tsan runs the tests in which several threads use the same memory.
TSAN_TESTS := $(addprefix build/tsan/tests/unit/,test_models test_embed test_generate test_cold)
tsan: $(TSAN_TESTS)
	$(call run_tests,$(TSAN_TESTS),$(SAMPLED))

# These tests depend on the width of size_t or on the instruction set.
PORTED := $(WASM_TESTS) \
          $(addprefix unit/,test_models test_portable test_tokenizer test_nomic test_neurons) \
          $(addprefix malformed/,test_malformed_gguf test_malformed_tokenizer test_malformed_hf test_malformed_neurons)
PORTED_m32 := $(PORTED:%=build/m32/tests/%)
PORTED_aarch64 := $(PORTED:%=build/aarch64/tests/%)
m32: $(PORTED_m32)
	$(call run_tests,$(PORTED_m32),$(SAMPLED))

# One CPU has int8 matrix products, one dot products only, and one neither; SETS_* run on each.
ARM_CPUS := max neoverse-n1 cortex-a72
SETS_max := neon-i8mm, neon, scalar
SETS_neoverse-n1 := neon, scalar
SETS_cortex-a72 := scalar
# These tests run on every CPU; all others do not depend on it and run once.
ON_EVERY_CPU := $(addprefix build/aarch64/tests/,kernels/test_kernels kernels/test_attention unit/test_models unit/test_portable)

.PHONY: $(ARM_CPUS:%=aarch64-%)
aarch64: $(PORTED_aarch64) $(ARM_CPUS:%=aarch64-%)
	$(call run_tests,$(filter-out $(ON_EVERY_CPU),$(PORTED_aarch64)),$(SAMPLED) .tools/bin/qemu-aarch64)

$(ARM_CPUS:%=aarch64-%): aarch64-%: build/aarch64/wisp $(ON_EVERY_CPU)
	.tools/bin/qemu-aarch64 -cpu $* $< --version | grep -Fx 'kernel sets: $(SETS_$*) (the first is the default)'
	$(call run_tests,$(ON_EVERY_CPU),$(SAMPLED) .tools/bin/qemu-aarch64 -cpu $*)

# musl's tests run in full but for those that take minutes and do not depend on the C library, and for
# locales, which all have the decimal point in musl.
MUSL_TESTS := $(filter-out $(addprefix build/musl/tests/,unit/test_golden unit/test_locale \
                malformed/test_malformed_sweeps malformed/test_malformed_hf_sweeps malformed/test_crash), $(TESTS_musl))
musl: $(MUSL_TESTS) build/musl/wisp
	$(call run_tests,$(MUSL_TESTS),$(SAMPLED) WISP_PROGRAM=build/musl/wisp)

# These tests read files, tokenize, and embed with tiny models, on a machine whose numbers have their
# low byte last. Then both machines write the same files. The emulator takes minutes for tests with the
# default model and with long texts; both are left out.
BIG_ENDIAN_TESTS := $(addprefix build/big-endian/tests/, kernels/test_blocks \
    $(addprefix unit/,test_file test_hf_tokenizer test_models test_neuron_store test_nomic test_releases \
        test_tokenizer test_tokenizer_metadata test_unicode test_writing) \
    $(addprefix malformed/,test_malformed_gguf test_malformed_tokenizer test_malformed_hf test_malformed_neurons))
big-endian: $(BIG_ENDIAN_TESTS) build/big-endian/wisp build/wisp
	$(call run_tests,$(BIG_ENDIAN_TESTS),$(SAMPLED) .tools/bin/qemu-s390x)
	tests/oracle/same_files.sh build/wisp '.tools/bin/qemu-s390x build/big-endian/wisp' build/big-endian

# On Windows the portable core runs, with threads (its users read files themselves), and the package in Node.
WINDOWS_CORE := $(patsubst src/%.c,build/windows/%.o,$(PORTABLE) src/host/pool_threads.c \
                  $(filter-out %/amx.c,$(wildcard src/kernels/x86_64/*.c)))
windows: build/windows/embed.exe build/addon/win32-x64.node wasm
	.tools/bin/wine $< models/wisp-default.gguf tests/data/golden-default.jsonl tests/data/golden-default.f32
	.tools/bin/node-windows tests/windows/package.mjs build/addon/win32-x64.node build/windows/package.json \
	    < /dev/null > build/windows/package.log 2>&1; status=$$?; cat build/windows/package.json; exit $$status

build/windows/embed.exe: build/windows/tests/windows/embed.o $(WINDOWS_CORE)
	$(SAY) LINK $@
	$(Q)$(CC_windows) $(FLAGS_windows) $(LINK_windows) $^ $(LDLIBS) -o $@

# Checks that the list of all that is built in and shipped is valid and current (tools/sbom.py).
.PHONY: sbom
sbom: build/libwisp.so wasm | .tools/stamp/sbom
	.tools/bin/python-sbom tools/sbom.py --check

# Builds and runs with other C libraries, machines and folders. CI runs each of them but for windows,
# whose compiler and Wine take 1.1 GB.
.PHONY: test-portable
test-portable: musl big-endian windows reproducible sbom

# Builds all that is shipped a second time, in another folder, and compares the bytes.
reproducible: native wasm package
	python3 tools/check_reproducible.py

valgrind: build/debug/wisp build/debug/tests/unit/test_models | .tools/stamp/valgrind
	.tools/bin/valgrind -q --error-exitcode=9 --leak-check=full \
	    build/debug/wisp embed -m models/wisp-default.gguf --dimensions 4 --text 'one text' --text 'and another one'
	.tools/bin/valgrind -q --error-exitcode=9 --leak-check=full build/debug/tests/unit/test_models

# Prints a line for each source file: how much of it the C tests reach.
coverage: $(TESTS_coverage) build/coverage/wisp
	$(call run_tests,$(TESTS_coverage),WISP_PROGRAM=build/coverage/wisp)
	python3 tools/coverage.py build/coverage

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

$(FUZZERS:%=build/fuzz/%): build/fuzz/%: build/fuzz/tests/fuzz/%.o $(SUPPORT_fuzz) \
    $(filter-out %/main.o,$(CLI_fuzz)) $(LIB_fuzz)
	$(SAY) LINK $@
	$(Q)$(CC_fuzz) $(FLAGS_fuzz) $(WATCH_ALLOCATIONS) -fsanitize=fuzzer $^ $(LDLIBS) -ldl -o $@

# Sweeps through faults, campaign-* targets and all fuzz targets in turns, for HOURS of processor time
# on JOBS cores; ARGS=--only-fuzz leaves the first two out. Ends with a summary and a smaller corpus.
HOURS = 8
JOBS = $(shell nproc)

.PHONY: campaign
campaign: | .tools/stamp/clang .tools/stamp/cmocka
	python3 tests/fuzz/campaign.py --hours $(HOURS) --jobs $(JOBS) $(ARGS)
