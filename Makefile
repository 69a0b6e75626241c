# SPDX-License-Identifier: Apache-2.0
#
#   make          the native library and program          make wasm       the WebAssembly modules
#   make addon    native code for Node                make addon-packages  its npm packages by platform
#   make demo     embed texts both ways, tell a story     make test       set up and run the tests
#   make test-all every test to its end, as in CI
#   make lint     formatting, warnings, static analysis   make asan       C tests under sanitizers
#   make coverage lines that the C tests reach            make fuzz      look for inputs that break it
#   make campaign fuzz and inject faults for hours
#   make install  PREFIX=/usr/local, DESTDIR=              make bench     how fast it is (bench/README.md)
#   make serve    the page in web-demo/, on this machine
#
# Everything is built in build/. Tools that are missing are fetched into .tools/ by tools/setup.py.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := native

CC = gcc
PREFIX = /usr/local
VERSION := $(shell sed -n 's/.*WISP_VERSION "\(.*\)".*/\1/p' src/wisp.h)

WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
# Contraction is off. The code writes each multiply-add that it wants, so that results do not depend
# on the choices of a compiler.
COMMON = -std=c11 -D_GNU_SOURCE -Isrc -fvisibility=hidden -ffp-contract=off $(WARNINGS) -MMD -MP
CFLAGS = -O3 -g
LDLIBS = -lm -lpthread

comma := ,

# "make V=1" prints whole commands.
Q = $(if $(V),,@)
SAY = @printf '  %-8s %s\n'

SETUP = python3 tools/setup.py

# ---- sources --------------------------------------------------------------------------------------

# Folders decide what is built. The portable ones run anywhere, in WebAssembly too; the native ones
# need a file system and threads. Kernels for one machine are in a folder of its name.
PORTABLE_FOLDERS := base quant kernels formats text weights layers attention sparse models engine
NATIVE_FOLDERS := host huggingface native index convert calibrate
PORTABLE := $(foreach folder,$(PORTABLE_FOLDERS),$(wildcard src/$(folder)/*.c))
HOSTED := $(foreach folder,$(NATIVE_FOLDERS),$(wildcard src/$(folder)/*.c))
CLI := $(wildcard src/cli/*.c src/http/*.c)

MACHINE := $(shell uname -m)

ISA_avx2 = -mavx2 -mfma -mf16c
ISA_avx_vnni = $(ISA_avx2) -mavxvnni
ISA_avx512 = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mbmi2 -mfma
ISA_amx = $(ISA_avx512) -mamx-tile -mamx-int8
ISA_neon = -march=armv8.2-a+dotprod
ISA_neon_i8mm = -march=armv8.2-a+dotprod+i8mm
# Finds the flags of the file that is compiled, by its name: those of avx2_portable.c are those of avx2.c.
ISA_NAME = $(patsubst %_portable,%,$(basename $(notdir $<)))
ISA = $(ISA_$(ISA_NAME))
# Sanitizers make vector kernels a hundred times slower; guard pages check those (tests/support/guarded.h).
UNWATCHED = $(if $(ISA),-O3 -fno-sanitize=all)

# ---- flavours -------------------------------------------------------------------------------------
#
# A flavour is one way to build the C code. Its objects go to build/NAME/. Tests and the program build
# in every flavour.

FLAVOURS := native asan tsan coverage aarch64 m32 musl big-endian windows debug fuzz

# These flavours bring their own compiler, which the stamp sets up.
COMPILER_aarch64 := .tools/stamp/aarch64
COMPILER_m32 := .tools/stamp/m32
COMPILER_musl := .tools/stamp/musl
COMPILER_big-endian := .tools/stamp/big-endian
COMPILER_windows := .tools/stamp/windows
COMPILER_fuzz := .tools/stamp/clang

CC_native = $(CC)
# Builds in any folder give the same bytes: debug information names files from the top of the checkout.
FLAGS_native = $(CFLAGS) -DNDEBUG -fPIC -ffile-prefix-map=$(CURDIR)=.
CC_debug = $(CC)
FLAGS_debug = -O1 -g
CC_asan = $(CC)
FLAGS_asan = -O2 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
UNWATCHED_asan = $(UNWATCHED)
CC_tsan = $(CC)
FLAGS_tsan = -O2 -g -fsanitize=thread
UNWATCHED_tsan = $(UNWATCHED)
CC_coverage = $(CC)
FLAGS_coverage = -O0 -g --coverage
CC_aarch64 = .tools/bin/aarch64-linux-gnu-gcc
# Compiles kernels as in a release (-O3), but tests with -O2, because gcc 12 crashes on one at -O3.
FLAGS_aarch64 = $(if $(ISA),-O3,-O2) -g
LINK_aarch64 = -static
CC_m32 = .tools/bin/gcc-m32
FLAGS_m32 = -O1 -g -msse2 -mfpmath=sse
CC_musl = .tools/bin/musl-gcc
FLAGS_musl = -O2 -g
LINK_musl = -static
CC_big-endian = .tools/bin/s390x-linux-gnu-gcc
# ISO C lets s390x compute floats in doubles, and then quantisers choose other codes.
FLAGS_big-endian = -O2 -g -fexcess-precision=fast
LINK_big-endian = -static
CC_windows = .tools/bin/x86_64-w64-mingw32-gcc
# gcc does not align the stack for vectors of more than 16 bytes on Windows, so the assembler must
# turn aligned moves into unaligned ones. Format checks do not know C11's printf there, and mingw's
# isfinite holds a conversion to float, which does not run for a double.
FLAGS_windows = -O2 -g -D__USE_MINGW_ANSI_STDIO=1 -Wno-format -Wno-float-conversion -Wa,-muse-unaligned-vector-move
LINK_windows = -static
CC_fuzz = .tools/bin/clang
FLAGS_fuzz = -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined

MACHINE_native := $(MACHINE)
MACHINE_fuzz := $(MACHINE)
MACHINE_debug := $(MACHINE)
MACHINE_asan := $(MACHINE)
MACHINE_tsan := $(MACHINE)
MACHINE_coverage := $(MACHINE)
MACHINE_aarch64 := aarch64
MACHINE_m32 := i386
MACHINE_musl := $(MACHINE)
MACHINE_big-endian := s390x
MACHINE_windows := x86_64

# Each test_NAME.c is a program. It links all other files of tests/support and tests/kernels.
TEST_FOLDERS := unit kernels malformed
TEST_FILES := $(foreach folder,$(TEST_FOLDERS),$(wildcard tests/$(folder)/test_*.c))
TESTS := $(patsubst tests/%.c,%,$(TEST_FILES))
TEST_SUPPORT := $(wildcard tests/support/*.c) $(filter-out $(TEST_FILES),$(wildcard tests/kernels/*.c))
# tests/support/allocations.c wraps these functions in tests.
WATCH_ALLOCATIONS := $(patsubst %,-Wl$(comma)--wrap=%, malloc calloc realloc aligned_alloc free)

FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))

define flavour
LIB_$(1) := $$(patsubst src/%.c,build/$(1)/%.o,$(PORTABLE) $(HOSTED) $(wildcard src/kernels/$(MACHINE_$(1))/*.c))
CLI_$(1) := $$(patsubst src/%.c,build/$(1)/%.o,$(CLI))
SUPPORT_$(1) := $$(patsubst %.c,build/$(1)/%.o,$(TEST_SUPPORT)) build/$(1)/cmocka.o
TESTS_$(1) := $$(patsubst %,build/$(1)/tests/%,$(TESTS))

build/$(1)/%.o: src/%.c Makefile | $(COMPILER_$(1))
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	$$(Q)$$(CC_$(1)) $$(COMMON) $$(FLAGS_$(1)) $$(if $$(LINK_$(1)),-DWISP_STATIC) $$(ISA) $$(UNWATCHED_$(1)) \
	    -c $$< -o $$@

build/$(1)/tests/%.o: tests/%.c Makefile | .tools/stamp/cmocka $(COMPILER_$(1))
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	$$(Q)$$(CC_$(1)) $$(COMMON) -Itests $$(FLAGS_$(1)) -isystem .tools/cmocka/include -c $$< -o $$@

build/$(1)/cmocka.o: | .tools/stamp/cmocka $(COMPILER_$(1))
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) -w -DHAVE_CONFIG_H -I.tools/cmocka/src -I.tools/cmocka/include \
	    -c .tools/cmocka/src/cmocka.c -o $$@

build/$(1)/wisp: $$(CLI_$(1)) $$(LIB_$(1))
	$$(SAY) LINK $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) $$(LINK_$(1)) $$^ $$(LDLIBS) -o $$@

$$(TESTS_$(1)): build/$(1)/tests/%: build/$(1)/tests/%.o $$(SUPPORT_$(1)) $$(LIB_$(1))
	$$(SAY) LINK $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) $$(LINK_$(1)) $(WATCH_ALLOCATIONS) $$^ $$(LDLIBS) -o $$@

# Only the program loads libraries (src/http/curl.c). C libraries of before 2021 have dlopen in one of its own.
build/$(1)/wisp build/$(1)/wisp-refusing $$(FUZZERS:fuzz_%=build/$(1)/replay_%): LDLIBS += $$(if $$(LINK_$(1)),,-ldl)

.SECONDARY: $$(LIB_$(1)) $$(CLI_$(1)) $$(SUPPORT_$(1)) $$(TESTS_$(1):%=%.o)
-include $$(patsubst %.o,%.d,$$(LIB_$(1)) $$(CLI_$(1)) $$(SUPPORT_$(1)) $$(TESTS_$(1):%=%.o))

# The program for tests that refuse its allocations.
build/$(1)/wisp-refusing: build/$(1)/tests/malformed/refuse.o $$(CLI_$(1)) $$(LIB_$(1))
	$$(SAY) LINK $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) $$(LINK_$(1)) $$^ $$(LDLIBS) -o $$@

# A fuzz target as a program that runs it once on each file of a corpus, and the writer of seeds.
REPLAYS_$(1) := $$(FUZZERS:fuzz_%=build/$(1)/replay_%)

$$(REPLAYS_$(1)): build/$(1)/replay_%: build/$(1)/tests/fuzz/fuzz_%.o build/$(1)/tests/fuzz/replay.o \
    $$(SUPPORT_$(1)) $$(filter-out %/main.o,$$(CLI_$(1))) $$(LIB_$(1))
build/$(1)/seeds: build/$(1)/tests/fuzz/seeds.o $$(SUPPORT_$(1)) $$(LIB_$(1))
$$(REPLAYS_$(1)) build/$(1)/seeds:
	$$(SAY) LINK $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) $$(LINK_$(1)) $(WATCH_ALLOCATIONS) $$^ $$(LDLIBS) -o $$@

.SECONDARY: $$(patsubst %,build/$(1)/tests/fuzz/%.o,$$(FUZZERS) replay seeds)
-include $$(patsubst %,build/$(1)/tests/fuzz/%.d,$$(FUZZERS) replay seeds)
endef
$(foreach name,$(FLAVOURS),$(eval $(call flavour,$(name))))

# ---- native ---------------------------------------------------------------------------------------

.PHONY: native wasm
native: build/wisp build/libwisp.a build/libwisp.so

build/wisp: build/native/wisp
	$(Q)cp $< $@

# Links one object in which all names but wisp_* are local, so that none collides with a user's name.
build/libwisp.o: $(LIB_native)
	$(SAY) LD $@
	$(Q)$(CC) -r -nostdlib $^ -o $@
	$(Q)objcopy --localize-hidden $@

build/libwisp.a: build/libwisp.o
	$(SAY) AR $@
	$(Q)rm -f $@ && ar rcsD $@ $<

build/libwisp.so: $(LIB_native)
	$(SAY) LINK $@
	$(Q)$(CC) -shared -Wl,-soname,libwisp.so.0 -Wl,-Map=$@.map $^ $(LDLIBS) -o $@

# ---- addon ----------------------------------------------------------------------------------------

# The addon for Node has the core, threads, and what JavaScript calls. Its files see Node's headers from npm,
# and find Node's functions in the program that loads them.
ADDON := $(PORTABLE) src/host/pool_threads.c $(wildcard src/binding/*.c src/binding/generate/*.c src/node/*.c)
ADDON_FLAGS = -DNAPI_VERSION=8 -isystem node_modules/node-api-headers/include
# Leaves out what is not used, and hides all names but those by which Node finds the addon.
ADDON_LINK = -shared -Wl,--gc-sections -Wl,--version-script=src/node/exports.map -s
# macOS hides names by their visibility, which leaves those of wisp.h; Windows shows what asks to be shown.
ADDON_LINK_win32-x64 = -shared -Wl,--gc-sections -s -static
ADDON_LINK_darwin-arm64 = -shared -Wl,-dead_strip -Wl,-undefined,dynamic_lookup -Wl,-s

.PHONY: addon addon-packages
addon: build/wisp.node

ADDON_native := $(patsubst src/%.c,build/native/%.o,$(ADDON) $(wildcard src/kernels/$(MACHINE)/*.c))
build/native/node/%.o: FLAGS_native += $(ADDON_FLAGS)
$(filter build/native/node/%,$(ADDON_native)): | .tools/stamp/node_modules

build/wisp.node: $(ADDON_native) src/node/exports.map
	$(SAY) LINK $@
	$(Q)$(CC) $(ADDON_LINK) $(ADDON_native) $(LDLIBS) -o $@

-include $(patsubst %.o,%.d,$(filter build/native/node/% build/native/binding/%,$(ADDON_native)))

# The packages by platform, in build/packages. musl's functions are left to the program: nothing is linked that
# names a C library. zig is for what gcc is not there for: its x86 code does not find out what the CPU can do.
ADDON_TARGETS := linux-x64-gnu linux-x64-musl linux-arm64-gnu linux-arm64-musl darwin-arm64 win32-x64
ADDON_CC_linux-x64-gnu = $(CC) -include src/node/old_glibc.h
ADDON_CC_linux-x64-musl = .tools/bin/musl-gcc
ADDON_CC_linux-arm64-gnu = .tools/bin/aarch64-linux-gnu-gcc -include src/node/old_glibc.h
# Its clang is newer than that of `make lint`, and warns of more.
ADDON_CC_linux-arm64-musl = .tools/bin/zig cc -target aarch64-linux-musl -Wno-enum-float-conversion
ADDON_CC_darwin-arm64 = .tools/bin/zig cc -target aarch64-macos.13.0 -Wno-enum-float-conversion
ADDON_CC_win32-x64 = $(CC_windows) $(filter-out -O2 -g,$(FLAGS_windows))
ADDON_LINKER_linux-x64-musl = $(CC) -nostdlib
ADDON_LIBS_linux-x64-musl = -lgcc
ADDON_SETUP_linux-x64-musl := .tools/stamp/musl
ADDON_SETUP_linux-arm64-gnu := .tools/stamp/aarch64
ADDON_SETUP_linux-arm64-musl := .tools/stamp/zig
ADDON_SETUP_darwin-arm64 := .tools/stamp/zig
ADDON_WITHOUT_win32-x64 = %/amx.c
# Windows asks for the name of the program that has Node's functions.
ADDON_LIBS_win32-x64 = build/addon/node_api.lib build/addon/js_native_api.lib
build/addon/win32-x64.node: $(ADDON_LIBS_win32-x64)
build/addon/%_api.lib: | .tools/stamp/windows .tools/stamp/node_modules
	@mkdir -p $(@D)
	$(Q)$(CC_windows:gcc=dlltool) -d node_modules/node-api-headers/def/$*_api.def -l $@
ADDON_SETUP_win32-x64 := .tools/stamp/windows
ADDON_ISA_linux-arm64-musl_neon = -mcpu=generic+v8_2a+dotprod
ADDON_ISA_linux-arm64-musl_neon_i8mm = -mcpu=generic+v8_2a+dotprod+i8mm
ADDON_ISA_darwin-arm64_neon = $(ADDON_ISA_linux-arm64-musl_neon)
ADDON_ISA_darwin-arm64_neon_i8mm = $(ADDON_ISA_linux-arm64-musl_neon_i8mm)

define addon_for
ADDON_$(1) := $$(patsubst src/%.c,build/addon/$(1)/%.o,$(ADDON) $$(filter-out $$(ADDON_WITHOUT_$(1)),$$(wildcard src/kernels/$(2)/*.c)))

build/addon/$(1)/%.o: src/%.c Makefile | $(ADDON_SETUP_$(1)) .tools/stamp/node_modules
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	$$(Q)$$(ADDON_CC_$(1)) $$(COMMON) -O3 -DNDEBUG -fPIC $$(ADDON_FLAGS) \
	    $$(or $$(ADDON_ISA_$(1)_$$(ISA_NAME)),$$(ISA)) -c $$< -o $$@

build/addon/$(1).node: $$(ADDON_$(1)) src/node/exports.map
	$$(SAY) LINK $$@
	$$(Q)$$(or $$(ADDON_LINKER_$(1)),$$(ADDON_CC_$(1))) $$(or $$(ADDON_LINK_$(1)),$$(ADDON_LINK)) $$(ADDON_$(1)) \
	    $$(or $$(ADDON_LIBS_$(1)),$$(LDLIBS)) -o $$@

-include $$(ADDON_$(1):%.o=%.d)
endef
$(foreach target,$(ADDON_TARGETS),$(eval $(call addon_for,$(target),$(if $(findstring x64,$(target)),x86_64,aarch64))))

addon-packages: $(ADDON_TARGETS:%=build/addon/%.node)
	node tools/addons.mjs build/packages $(foreach target,$(ADDON_TARGETS),$(target)=build/addon/$(target).node)

# ---- demo -----------------------------------------------------------------------------------------

.PHONY: demo
demo: native wasm
	node tools/demo.mjs

# Serves the page and prints its address; "make serve ARGS=--isolated" allows shared memory.
.PHONY: serve
serve: wasm models/wisp-cold.gguf
	@node tools/serve.mjs $(ARGS)

# The model of the page that draws neurons: the default one, calibrated by the texts at hand. A new build of the program
# would write the same, so it is made once.
models/wisp-cold.gguf: models/wisp-default.gguf | build/wisp
	$(SAY) FIT $@
	$(Q)node tools/demo_texts.mjs | build/wisp calibrate $< --data - --tokens 12000 --hot 0.8 --hot-tokens 6000 \
	    -o $@ > build/wisp-cold.txt

# ---- WebAssembly ----------------------------------------------------------------------------------

WASM_COMMON = -std=c11 -D_GNU_SOURCE -Isrc -O3 -DNDEBUG -fvisibility=hidden -ffp-contract=off \
              $(WARNINGS) -MMD -MP
WASM_LINK = -O3 --no-entry -sSTANDALONE_WASM -sFILESYSTEM=0 -sMALLOC=emmalloc \
            -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=1MB -sSTACK_SIZE=256KB \
            -sERROR_ON_UNDEFINED_SYMBOLS=0
# Every user downloads the modules. So code that runs once, or once for a batch, is compiled for size,
# and so are the scalar kernels, which are never the fastest.
WASM_ONCE = $(if $(filter src/base/% src/formats/% src/weights/% src/models/% src/engine/% wasm/% \
                          src/binding/% %scalar.c %select.c %pack_q4.c %pack_ternary.c %sparse_pack.c %levels.c %ternary.c %t158.c %low_bits.c \
                          %iq4.c %kv_cache.c %neuron_cold.c %group_heap.c %neuron_load.c %neuron_store.c %ffn_load.c \
                          %sparse/plan.c %recall.c %layers/linear.c %token_embedding.c %tokenizer_open.c %unicode.c \
                          src/text/chat%.c src/text/gbnf.c src/text/grammar_builder.c src/text/json_schema.c,$<),-Os)
WASM_simd128 = -msimd128
WASM_relaxed = -msimd128 -mrelaxed-simd
WASM_SOURCES := $(PORTABLE) $(wildcard src/binding/*.c wasm/*.c)

# There are two modules for each instruction set. wisp-*.wasm only embeds texts: files that ask for WISP_EMBED_ONLY,
# by itself or as DECODER_KERNELS, leave out what only decoders need, and those that ask whether
# COLD_NEURONS_MAY_BE_ABSENT have what only these modules need. wisp-generate-*.wasm has everything, and the
# exports in src/binding/generate; the files that ask are compiled a second time for it, all others are shared.
WASM_ASKING := $(shell grep -lE 'WISP_EMBED_ONLY|DECODER_KERNELS|COLD_NEURONS_MAY_BE_ABSENT' $(WASM_SOURCES))
WASM_GENERATE := $(WASM_ASKING) $(wildcard src/binding/generate/*.c)
# wisp-embed-threads-*.wasm and wisp-threads-*.wasm are the two again, with memory that the workers of a team share. All
# of them is compiled for that, and what asks twice, as above.
WASM_THREADS = -matomics -mbulk-memory
WASM_LINK_THREADS = -sINITIAL_MEMORY=4MB -sSHARED_MEMORY -sIMPORTED_MEMORY -Wl,--export=__stack_pointer
WASM_MODULES := $(foreach set,simd128 relaxed,js/wisp-$(set).wasm js/wisp-generate-$(set).wasm js/wisp-threads-$(set).wasm \
    js/wisp-embed-threads-$(set).wasm)

# Modules lie beside the JavaScript that loads them, as in the package.
wasm: $(WASM_MODULES) js/wisp-convert.wasm js/index-kernels.js

js/%.wasm: build/wasm/%.wasm
	$(Q)cp $< $@

# The module of indexes is so small that a script holds it. It needs no libraries and no malloc.
WASM_INDEX := wasm/index/index.c src/base/checksum.c
WASM_LINK_INDEX = -O3 --no-entry -sSTANDALONE_WASM -sFILESYSTEM=0 -sMALLOC=none -sALLOW_MEMORY_GROWTH \
                  -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=128KB -sSTACK_SIZE=16KB -Wl,--export=__heap_base

build/wasm/wisp-index.wasm: $(WASM_INDEX) src/base/checksum.h src/base/byte_order.h Makefile | .tools/stamp/emcc
	@mkdir -p $(@D)
	$(SAY) EMCC $@
	$(Q).tools/bin/emcc $(filter-out -MMD -MP,$(WASM_COMMON)) $(WASM_simd128) $(WASM_LINK_INDEX) $(WASM_INDEX) -o $@

js/index-kernels.js: build/wasm/wisp-index.wasm tools/embed_kernels.mjs
	$(Q)node tools/embed_kernels.mjs $< $@

# The module that converts models is loaded only for that. Of these files the linker takes what wisp_convert reaches.
# It has all types of tensors: files that ask for WISP_CONVERTER leave most out of the other modules.
WASM_CONVERT := $(foreach folder,base quant formats text huggingface convert,$(wildcard src/$(folder)/*.c)) \
                src/kernels/weights.c src/native/open_path.c $(wildcard wasm/convert/*.c)
OBJECTS_convert := $(WASM_CONVERT:%.c=build/wasm/convert/%.o)

build/wasm/convert/%.o: %.c Makefile | .tools/stamp/emcc
	@mkdir -p $(@D)
	$(SAY) EMCC $@
	$(Q).tools/bin/emcc $(WASM_COMMON) $(if $(filter src/quant/%,$<),,-Os) $(WASM_simd128) -DWISP_CONVERTER -c $< -o $@

build/wasm/wisp-convert.wasm: $(OBJECTS_convert)
	$(SAY) LINK $@
	$(Q).tools/bin/emcc $(WASM_LINK) -sINITIAL_MEMORY=4MB -sSTACK_SIZE=1MB $(WASM_simd128) -Wl$(comma)-Map=$@.map $^ -o $@

-include $(OBJECTS_convert:%.o=%.d)

define wasm_build
OBJECTS_$(1) := $$(patsubst %.c,build/wasm/$(1)/%.o,$(WASM_SOURCES) $(wildcard src/kernels/$(1)/*.c))
OBJECTS_generate-$(1) := $$(patsubst %.c,build/wasm/generate-$(1)/%.o,$(WASM_GENERATE) $(wildcard src/kernels/$(1)/*.c)) \
    $$(filter-out $$(WASM_ASKING:%.c=build/wasm/$(1)/%.o) build/wasm/$(1)/src/kernels/$(1)/%,$$(OBJECTS_$(1)))

OBJECTS_threads-$(1) := $$(patsubst %.c,build/wasm/threads-$(1)/%.o,\
    $(filter-out wasm/pool_single.c,$(WASM_SOURCES)) $(wildcard src/kernels/$(1)/*.c src/binding/generate/*.c wasm/threads/*.c))
OBJECTS_embed-threads-$(1) := $$(patsubst %.c,build/wasm/embed-threads-$(1)/%.o,$(WASM_ASKING) $(wildcard src/kernels/$(1)/*.c)) \
    $$(filter-out $$(WASM_ASKING:%.c=build/wasm/threads-$(1)/%.o) build/wasm/threads-$(1)/src/kernels/$(1)/% \
        build/wasm/threads-$(1)/src/binding/generate/%,$$(OBJECTS_threads-$(1)))

build/wasm/$(1)/%.o: %.c Makefile | .tools/stamp/emcc
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/emcc $$(WASM_COMMON) $$(WASM_ONCE) $$(WASM_$(1)) -DWISP_EMBED_ONLY -c $$< -o $$@

build/wasm/generate-$(1)/%.o: %.c Makefile | .tools/stamp/emcc
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/emcc $$(WASM_COMMON) $$(WASM_ONCE) $$(WASM_$(1)) -c $$< -o $$@

build/wasm/threads-$(1)/%.o: %.c Makefile | .tools/stamp/emcc
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/emcc $$(WASM_COMMON) $$(WASM_ONCE) $$(WASM_$(1)) $$(WASM_THREADS) -c $$< -o $$@

build/wasm/embed-threads-$(1)/%.o: %.c Makefile | .tools/stamp/emcc
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/emcc $$(WASM_COMMON) $$(WASM_ONCE) $$(WASM_$(1)) $$(WASM_THREADS) -DWISP_EMBED_ONLY -c $$< -o $$@

build/wasm/wisp-threads-$(1).wasm: $$(OBJECTS_threads-$(1))
build/wasm/wisp-embed-threads-$(1).wasm: $$(OBJECTS_embed-threads-$(1))
build/wasm/wisp-threads-$(1).wasm build/wasm/wisp-embed-threads-$(1).wasm:
	$$(SAY) LINK $$@
	$$(Q).tools/bin/emcc $$(WASM_LINK) $$(WASM_LINK_THREADS) $$(WASM_$(1)) -Wl$$(comma)-Map=$$@.map $$^ -o $$@

build/wasm/wisp-$(1).wasm: $$(OBJECTS_$(1))
build/wasm/wisp-generate-$(1).wasm: $$(OBJECTS_generate-$(1))
build/wasm/wisp-$(1).wasm build/wasm/wisp-generate-$(1).wasm:
	$$(SAY) LINK $$@
	$$(Q).tools/bin/emcc $$(WASM_LINK) $$(WASM_$(1)) -Wl$$(comma)-Map=$$@.map $$^ -o $$@

-include $$(patsubst %.o,%.d,$$(OBJECTS_$(1)) $$(OBJECTS_generate-$(1)) $$(OBJECTS_threads-$(1)) \
    $$(OBJECTS_embed-threads-$(1)))
endef
$(eval $(call wasm_build,simd128))
$(eval $(call wasm_build,relaxed))

# Tests of the C code in WebAssembly are programs for node. Their extension is .cjs because
# package.json says "type": "module".
WASM_TESTS := $(patsubst tests/%.c,%,$(wildcard tests/kernels/test_*.c))
WASM_TEST_SUPPORT := tests/support/guarded.c \
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

build/wasm/$(1)/tests/%.o: tests/%.c Makefile | .tools/stamp/emcc .tools/stamp/cmocka
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

# ---- tests ----------------------------------------------------------------------------------------

.PHONY: test test-all test-c test-corpus test-wasm test-js test-oracle test-train test-models test-decoders
.PHONY: test-example
test: test-c test-corpus test-example test-wasm test-js test-oracle test-train test-models test-decoders

# "make test" samples long tests and skips exhaustive ones; "make test-all", which CI runs, does
# everything. The tests read this variable too.
test-all: export WISP_TEST_ALL = 1
test-all: test

# $(call only_in_all,WHAT,COMMAND) runs a command in test-all and otherwise says that WHAT is skipped.
only_in_all = $(if $(WISP_TEST_ALL),$(2),@echo 'skipped: $(1): in make test-all')

# Runs the test programs of a flavour in one shell, and stops at the first that fails.
run_tests = @for test in $(1); do $(2) $$test || exit 1; done

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
	node --test tests/js/*.test.mjs

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

# Runs tools/train_relu.py and train_ternary.py on a tiny model, and compares their results in wisp and transformers.
test-train: build/wisp
	$(call only_in_all,tools/train_relu.py and train_ternary.py on a tiny model,\
	    $(SETUP) torch $(if $(CI),,|| echo "skipped: PyTorch is absent"))
	$(if $(WISP_TEST_ALL),$(if $(CI),,test ! -x .tools/bin/python-torch ||) \
	    { .tools/bin/python-torch tests/oracle/train_relu.py $< && \
	    .tools/bin/python-torch tests/oracle/train_ternary.py $<; })

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
	$(call run_tests,$(filter build/fuzz/tests/%,$^))
	$(call run_corpus,fuzz)

.PHONY: asan ubsan tsan m32 aarch64 musl big-endian windows reproducible valgrind coverage
asan: $(TESTS_asan) build/asan/wisp $(REPLAYS_asan) build/asan/seeds
	$(call run_tests,$(TESTS_asan),WISP_PROGRAM=build/asan/wisp)
	$(call run_corpus,asan)

# tsan runs the tests in which several threads use the same memory.
TSAN_TESTS := $(addprefix build/tsan/tests/unit/,test_models test_embed test_generate test_cold)
tsan: $(TSAN_TESTS)
	$(call run_tests,$(TSAN_TESTS))

# These tests depend on the width of size_t or on the instruction set.
PORTED := $(WASM_TESTS) \
          $(addprefix unit/,test_models test_portable test_tokenizer test_nomic test_neurons) \
          $(addprefix malformed/,test_malformed_gguf test_malformed_tokenizer test_malformed_hf test_malformed_neurons)
PORTED_m32 := $(PORTED:%=build/m32/tests/%)
PORTED_aarch64 := $(PORTED:%=build/aarch64/tests/%)
m32: $(PORTED_m32)
	$(call run_tests,$(PORTED_m32))

# One CPU has int8 matrix products, one dot products only, and one neither; SETS_* run on each.
ARM_CPUS := max neoverse-n1 cortex-a72
SETS_max := neon-i8mm, neon, scalar
SETS_neoverse-n1 := neon, scalar
SETS_cortex-a72 := scalar
# These tests run on every CPU; all others do not depend on it and run once.
ON_EVERY_CPU := $(addprefix build/aarch64/tests/,kernels/test_kernels kernels/test_attention unit/test_models unit/test_portable)

.PHONY: $(ARM_CPUS:%=aarch64-%)
aarch64: $(PORTED_aarch64) $(ARM_CPUS:%=aarch64-%)
	$(call run_tests,$(filter-out $(ON_EVERY_CPU),$(PORTED_aarch64)),.tools/bin/qemu-aarch64)

$(ARM_CPUS:%=aarch64-%): aarch64-%: build/aarch64/wisp $(ON_EVERY_CPU)
	.tools/bin/qemu-aarch64 -cpu $* $< --version | grep -Fx 'kernel sets: $(SETS_$*) (the first is the default)'
	$(call run_tests,$(ON_EVERY_CPU),.tools/bin/qemu-aarch64 -cpu $*)

# musl's tests run in full but for those that take minutes and do not depend on the C library, and for
# locales, which all have the decimal point in musl.
MUSL_TESTS := $(filter-out $(addprefix build/musl/tests/,unit/test_golden unit/test_locale \
                malformed/test_malformed_sweeps malformed/test_malformed_hf_sweeps malformed/test_crash), $(TESTS_musl))
musl: $(MUSL_TESTS) build/musl/wisp
	$(call run_tests,$(MUSL_TESTS),WISP_PROGRAM=build/musl/wisp)

# These tests read files, tokenize, and embed with tiny models, on a machine whose numbers have their
# low byte last. Then both machines write the same files. The emulator takes minutes for tests with the
# default model and with long texts; both are left out.
BIG_ENDIAN_TESTS := $(addprefix build/big-endian/tests/, kernels/test_blocks \
    $(addprefix unit/,test_file test_hf_tokenizer test_models test_neuron_store test_nomic test_releases \
        test_tokenizer test_tokenizer_metadata test_unicode) \
    $(addprefix malformed/,test_malformed_gguf test_malformed_tokenizer test_malformed_hf test_malformed_neurons))
big-endian: $(BIG_ENDIAN_TESTS) build/big-endian/wisp build/wisp
	$(call run_tests,$(BIG_ENDIAN_TESTS),.tools/bin/qemu-s390x)
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

# Builds all that is shipped twice, in different folders, and compares the bytes.
reproducible: | .tools/stamp/emcc .tools/stamp/node_modules
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

include bench/rules.mk

# ---- lint -----------------------------------------------------------------------------------------

C_FILES := $(sort $(wildcard src/*.h src/*/*.[ch] src/*/*/*.[ch] wasm/*.[ch] wasm/*/*.c tests/*.[ch] tests/*/*.[ch] bench/*/*.c))
NATIVE_C := $(PORTABLE) $(HOSTED) $(CLI) $(TEST_FILES) $(TEST_SUPPORT) \
            $(wildcard tests/fuzz/*.c tests/oracle/*.c src/binding/*.c src/binding/*/*.c src/node/*.c) tests/malformed/refuse.c
TIDY_FLAGS = -std=c11 -D_GNU_SOURCE -Isrc -Itests -isystem .tools/cmocka/include $(ADDON_FLAGS)

.PHONY: lint lint-includes lint-commits lint-format lint-warnings lint-tidy lint-cppcheck lint-js format
lint: lint-includes lint-commits lint-format lint-warnings lint-tidy lint-cppcheck lint-js

# Includes form no circle and point downwards.
lint-includes:
	$(Q)python3 tools/check_includes.py

# Commit messages name no path of one machine.
lint-commits:
	$(Q)python3 tools/check_commits.py

lint-format: | .tools/stamp/clang
	$(Q).tools/bin/clang-format --dry-run -Werror $(C_FILES)

# gcc and clang find different faults; neither may find any.
lint-warnings: | .tools/stamp/clang .tools/stamp/cmocka .tools/stamp/node_modules
	@for file in $(NATIVE_C); do \
	    for cc in gcc .tools/bin/clang; do \
	        $$cc $(TIDY_FLAGS) -O1 $(WARNINGS) -Werror -c $$file -o /dev/null || exit 1; \
	    done; \
	done

lint-tidy: | .tools/stamp/clang .tools/stamp/cmocka
	$(Q).tools/bin/clang-tidy --quiet $(PORTABLE) $(HOSTED) $(CLI) -- $(TIDY_FLAGS)

lint-cppcheck: | .tools/stamp/cppcheck
	$(Q).tools/bin/cppcheck --quiet --std=c11 --enable=warning,performance,portability \
	    --inline-suppr --suppressions-list=tools/cppcheck-suppressions --error-exitcode=1 -Isrc \
	    $(PORTABLE) $(HOSTED) $(CLI)

lint-js: | .tools/stamp/node_modules
	npm run --silent lint

format: | .tools/stamp/clang .tools/stamp/node_modules
	.tools/bin/clang-format -i $(C_FILES)
	npm run --silent format

# ---- install --------------------------------------------------------------------------------------

.PHONY: install
install: native
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	    $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/share/wisp
	install build/wisp $(DESTDIR)$(PREFIX)/bin/
	install -m 644 src/wisp.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 build/libwisp.a $(DESTDIR)$(PREFIX)/lib/
	install build/libwisp.so $(DESTDIR)$(PREFIX)/lib/libwisp.so.$(VERSION)
	ln -sf libwisp.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/libwisp.so.0
	ln -sf libwisp.so.0 $(DESTDIR)$(PREFIX)/lib/libwisp.so
	install -m 644 models/wisp-default.gguf models/wisp-stories.gguf $(DESTDIR)$(PREFIX)/share/wisp/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' tools/wisp.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/wisp.pc

# ---- tools ----------------------------------------------------------------------------------------

.tools/stamp/%:
	$(SETUP) $*
	@touch $@

.tools/stamp/node_modules: package.json package-lock.json
.tools/stamp/python: tools/requirements.txt
