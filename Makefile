# SPDX-License-Identifier: Apache-2.0
#
#   make           the native library and program         make wasm            the WebAssembly modules
#   make addon     native code for Node                   make addon-packages  its npm packages by platform
#   make package   the npm package, in build/npm
#   make demo      embed texts both ways, tell a story    make serve           the pages in web-demo/, on this machine
#   make test      set up and run the tests               make test-all        every test to its end, as in CI
#   make lint      formatting, warnings, static analysis  make asan            C tests under sanitizers
#   make coverage  lines that the C tests reach           make fuzz            look for inputs that break it
#   make campaign  fuzz and inject faults for hours       make bench           how fast it is (bench/README.md)
#   make install   PREFIX=/usr/local, DESTDIR=
#
# The rules that test are in tests/rules.mk, and those that measure in bench/rules.mk. Everything is built in
# build/. Tools that are missing are fetched into .tools/ by tools/setup.py.

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
BINDING := $(wildcard src/binding/*.c src/binding/generate/*.c)
# tests/support/allocations.c wraps these functions in tests.
WATCH_ALLOCATIONS := $(patsubst %,-Wl$(comma)--wrap=%, malloc calloc realloc aligned_alloc free)

FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))

define flavour
LIB_$(1) := $$(patsubst src/%.c,build/$(1)/%.o,$(PORTABLE) $(HOSTED) $(wildcard src/kernels/$(MACHINE_$(1))/*.c))
CLI_$(1) := $$(patsubst src/%.c,build/$(1)/%.o,$(CLI))
SUPPORT_$(1) := $$(patsubst %.c,build/$(1)/%.o,$(TEST_SUPPORT)) build/$(1)/cmocka.o \
    $$(patsubst src/%.c,build/$(1)/%.o,$(BINDING))
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

# The only C test of what JavaScript calls.
WRITING_$(1) := $$(patsubst %,build/$(1)/binding/%.o,engine generate/text)
build/$(1)/tests/unit/test_writing: $$(WRITING_$(1))
-include $$(WRITING_$(1):%.o=%.d)

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
ADDON := $(PORTABLE) src/host/pool_threads.c $(BINDING) $(wildcard src/node/*.c)
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

# The packages for Linux have the program, too, for commands that JavaScript leaves to it (js/cli-program.js). It brings
# musl, so one serves all C libraries.
define addon_program
PROGRAM_$(1) := $$(patsubst src/%.c,build/addon/linux-$(1)-musl/%.o,\
    $(PORTABLE) $(HOSTED) $(CLI) $$(wildcard src/kernels/$(2)/*.c))
$$(filter build/addon/linux-$(1)-musl/http/%,$$(PROGRAM_$(1))): ADDON_FLAGS += -DWISP_STATIC

build/addon/linux-$(1).program: $$(PROGRAM_$(1))
	$$(SAY) LINK $$@
	$$(Q)$$(ADDON_CC_linux-$(1)-musl) -static -Wl,--gc-sections -s $$^ $$(LDLIBS) -o $$@

-include $$(PROGRAM_$(1):%.o=%.d)
endef
$(eval $(call addon_program,x64,x86_64))
$(eval $(call addon_program,arm64,aarch64))

addon-packages: $(ADDON_TARGETS:%=build/addon/%.node) build/addon/linux-x64.program build/addon/linux-arm64.program
	node tools/addons.mjs build/packages $(foreach target,$(ADDON_TARGETS),$(target)=build/addon/$(target).node$(if \
	    $(filter linux-%,$(target)),$(comma)build/addon/$(patsubst %-gnu,%,$(target:%-musl=%)).program))

# ---- package --------------------------------------------------------------------------------------

# The npm package, in build/npm and as an archive in build: `npm publish build/npm` publishes it.
.PHONY: package
package: wasm | .tools/stamp/node_modules
	node tools/pack.mjs build/npm
	$(Q)cd build/npm && npm pack --silent --pack-destination ..

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
                          src/binding/% %scalar.c %select.c %pack_q4.c %pack_q4_offset.c %pack_k.c %pack_ternary.c %pack_levels.c %sparse_pack.c %levels.c %ternary.c %t158.c %low_bits.c \
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
wasm: $(WASM_MODULES) js/wisp-convert.wasm js/wisp-program.wasm js/index-kernels.js

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

# The program for Node, with the commands of wasm/program/commands.c: a file there takes the place of that of src/cli
# with its name. What it shares with the module that converts, or else with those that generate, is compiled once.
PROGRAM := $(filter-out $(patsubst wasm/program/%,src/cli/%,$(wildcard wasm/program/*.c)) src/host/pool_threads.c,\
    $(foreach folder,calibrate cli host,$(wildcard src/$(folder)/*.c)) src/native/inspect.c $(wildcard wasm/program/*.c))
PROGRAM_ENGINE := $(filter-out $(WASM_CONVERT),$(PORTABLE)) wasm/pool_single.c $(wildcard src/kernels/simd128/*.c)
OBJECTS_program := $(PROGRAM:%.c=build/wasm/program/%.o) \
    $(filter-out build/wasm/convert/wasm/%,$(OBJECTS_convert)) \
    $(filter $(PROGRAM_ENGINE:%.c=build/wasm/simd128/%.o) $(PROGRAM_ENGINE:%.c=build/wasm/generate-simd128/%.o),\
        $(OBJECTS_generate-simd128))

build/wasm/program/%.o: %.c Makefile | .tools/stamp/emcc
	@mkdir -p $(@D)
	$(SAY) EMCC $@
	$(Q).tools/bin/emcc $(WASM_COMMON) -Os $(WASM_simd128) -c $< -o $@

build/wasm/wisp-program.wasm: $(OBJECTS_program)
	$(SAY) LINK $@
	$(Q).tools/bin/emcc $(filter-out --no-entry,$(WASM_LINK)) -sINITIAL_MEMORY=4MB -sSTACK_SIZE=1MB $(WASM_simd128) \
	    -Wl$(comma)-Map=$@.map $^ -o $@

-include $(PROGRAM:%.c=build/wasm/program/%.d)

include tests/rules.mk
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
