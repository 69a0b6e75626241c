# SPDX-License-Identifier: Apache-2.0
#
#   make           the native library and program         make wasm            the WebAssembly modules
#   make addon     native code for Node                   make addon-packages  its npm packages by platform
#   make package   the npm package, in build/npm      make wheel           the Python package, in build/wheels
#   make images    the library that decodes images for the program
#   make demo      embed texts both ways, tell a story    make serve           the pages in web-demo/, on this machine
#   make test      set up and run the tests               make test-all        every test to its end, as in CI
#   make lint      formatting, warnings, static analysis  make asan            C tests under sanitizers
#   make coverage  lines that the C tests reach           make fuzz            look for inputs that break it
#   make campaign  fuzz and inject faults for hours       make bench           how fast it is (bench/README.md)
#   make install   PREFIX=/usr/local, LIBDIR=PREFIX/lib, DESTDIR=; make uninstall
#   make release   all archives and packages of a release, in build/release
#
# The rules that test are in tests/rules.mk, and those that measure in bench/rules.mk. Everything is built in
# build/. Tools that are missing are fetched into .tools/ by tools/setup.py.

MAKEFLAGS += --no-builtin-rules
# As many jobs as cores, unless the user says how many. One more for what waits for downloads, and two for tests, because
# those in JavaScript wait for servers and clocks half of their time.
ifeq ($(MAKELEVEL),0)
MORE_JOBS := $(firstword $(if $(filter test,$(MAKECMDGOALS)),2) $(if $(filter demo test% set-up%,$(MAKECMDGOALS)),1) 0)
MAKEFLAGS += -j$(shell expr $$(nproc) + $(MORE_JOBS))
endif
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := native

CC = gcc
PREFIX = /usr/local
LIBDIR = $(PREFIX)/lib
VERSION := $(shell sed -n 's/.*WISP_VERSION "\(.*\)".*/\1/p' src/wisp.h)

WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
# Contraction is off. The code writes each multiply-add that it wants, so that results do not depend
# on the choices of a compiler.
COMMON = -std=c11 -D_GNU_SOURCE -Isrc -fvisibility=hidden -ffp-contract=off $(WARNINGS) -MMD -MP
# -g1 is enough for backtraces. Variables would double the time that kernels take to compile. CFLAGS of the environment follow,
# and the native build takes CPPFLAGS and LDFLAGS, too: a distribution sets them.
CFLAGS := -O3 -g1 $(if $(filter environment,$(origin CFLAGS)),$(CFLAGS))
LDLIBS = -lm -lpthread

comma := ,

# "make V=1" prints whole commands.
Q = $(if $(V),,@)
SAY = @printf '  %-8s %s\n'

# A command writes to NEW, which then takes its name: a file that an interrupted run left is whole, and a program that runs
# can be replaced. The shell's number keeps two runs of make apart. OBJECT is for compilers, which also list headers.
NEW = $(@D)/.$$$$-$(@F)
MOVE = && mv -f $(NEW) $@
OBJECT = -MT $@ -MF $(NEW:.o=.d) -c $< -o $(NEW) && mv -f $(NEW:.o=.d) $(@:.o=.d) $(MOVE)
# gcc names the files of coverage by the object.
build/coverage/%.o: OBJECT = -c $< -o $@

SETUP = python3 tools/setup.py

# ---- sources --------------------------------------------------------------------------------------

WUFFS_FLAGS = -isystem .tools/wuffs

# Folders decide what is built. The portable ones run anywhere, in WebAssembly too; the native ones
# need a file system and threads. Kernels for one machine are in a folder of its name.
PORTABLE_FOLDERS := base quant kernels formats text tokenizers grammar schema jinja prompt chat weights layers attention sparse models device engine
NATIVE_FOLDERS := host huggingface native index convert calibrate quantise
PORTABLE := $(foreach folder,$(PORTABLE_FOLDERS),$(wildcard src/$(folder)/*.c))
# What a product has of the tables of the folders above: each product links one of these lists.
PRODUCT := src/products/native.c
# What reads templates, grammars and schemas, in WebAssembly a module of its own.
LANGUAGES := $(foreach folder,schema jinja prompt,$(wildcard src/$(folder)/*.c))
HOSTED := $(foreach folder,$(NATIVE_FOLDERS),$(wildcard src/$(folder)/*.c))
CLI := $(wildcard src/cli/*.c src/http/*.c src/images/*.c src/serve/*.c)
# What Windows has of POSIX: a file there takes the place of that of src/host with its name, and the others are functions
# that are missing (src/windows/posix.h). AMX's permission is a call of Linux.
WINDOWS := $(wildcard src/windows/*.c)
WITHOUT_windows := %amx.c $(patsubst src/windows/%,src/host/%,$(WINDOWS))
ONLY_windows := $(WINDOWS)

MACHINE := $(shell uname -m)

ISA_avx2 = -mavx2 -mfma -mf16c
ISA_avx_vnni = $(ISA_avx2) -mavxvnni
ISA_avx512 = -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mbmi2 -mfma
ISA_amx = $(ISA_avx512) -mamx-tile -mamx-int8
ISA_bf16_avx512 = $(ISA_avx512) -mavx512bf16
ISA_bf16_amx = -mavx512f -mamx-tile -mamx-bf16
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
FLAGS_native = $(CPPFLAGS) $(CFLAGS) $(if $(CI),-Werror) -DNDEBUG -fPIC -ffile-prefix-map="$(CURDIR)"=.
LDFLAGS_native = $(LDFLAGS)
CC_debug = $(CC)
FLAGS_debug = -O1 -g
CC_asan = $(CC)
FLAGS_asan = -O2 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
UNWATCHED_asan = $(UNWATCHED)
CC_tsan = $(CC)
FLAGS_tsan = -O2 -g1 -fsanitize=thread
UNWATCHED_tsan = $(UNWATCHED)
CC_coverage = $(CC)
FLAGS_coverage = -O0 -g1 --coverage
CC_aarch64 = .tools/bin/aarch64-linux-gnu-gcc
# Compiles kernels as in a release (-O3), but tests with -O2, because gcc 12 crashes on one at -O3.
FLAGS_aarch64 = $(if $(ISA),-O3,-O2) -g1
LINK_aarch64 = -static
CC_m32 = .tools/bin/gcc-m32
FLAGS_m32 = -O1 -g1 -msse2 -mfpmath=sse
CC_musl = .tools/bin/musl-gcc
FLAGS_musl = -O2 -g1
LINK_musl = -static
CC_big-endian = .tools/bin/s390x-linux-gnu-gcc
# ISO C lets s390x compute floats in doubles, and then quantisers choose other codes.
FLAGS_big-endian = -O2 -g1 -fexcess-precision=fast
LINK_big-endian = -static
CC_windows = .tools/bin/x86_64-w64-mingw32-gcc
# gcc does not align the stack for vectors of more than 16 bytes on Windows, so the assembler must
# turn aligned moves into unaligned ones. Format checks do not know C11's printf there, and mingw's
# isfinite holds a conversion to float, which does not run for a double.
FLAGS_windows = -O2 -g1 -D__USE_MINGW_ANSI_STDIO=1 -D_FILE_OFFSET_BITS=64 -isystem src/windows/include \
    -Wno-format -Wno-float-conversion -Wa,-muse-unaligned-vector-move
LINK_windows = -static
CMOCKA_windows = -UHAVE_CONFIG_H # the configuration is that of a POSIX system
CC_fuzz = .tools/bin/clang
FLAGS_fuzz = -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined

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
BINDING := $(wildcard src/binding/*.c src/binding/embed/*.c src/binding/rank/*.c src/binding/generate/*.c)
ASKING := $(wildcard src/binding/languages/*.c)
# tests/support/allocations.c wraps these functions in tests, and other.c there the last.
WRAPPED := $(patsubst %,-Wl$(comma)--wrap=%, malloc calloc realloc aligned_alloc free architecture_find)

FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))

define flavour
KERNELS_$(1) := $$(patsubst src/%.c,build/$(1)/%.o,$$(filter-out $(WITHOUT_$(1)),$(wildcard src/kernels/$(MACHINE_$(1))/*.c)))
LIB_$(1) := $$(patsubst src/%.c,build/$(1)/%.o,$$(filter-out $(WITHOUT_$(1)),$(PORTABLE) $(HOSTED)) $(PRODUCT) $(ONLY_$(1))) \
    $$(KERNELS_$(1))
CLI_$(1) := $$(patsubst src/%.c,build/$(1)/%.o,$(CLI))
SUPPORT_$(1) := $$(patsubst %.c,build/$(1)/%.o,$(TEST_SUPPORT)) build/$(1)/cmocka.o \
    $$(patsubst src/%.c,build/$(1)/%.o,$(BINDING) $(ASKING))
TESTS_$(1) := $$(patsubst %,build/$(1)/tests/%,$(TESTS))

build/$(1)/%.o: src/%.c Makefile | $(COMPILER_$(1))
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	$$(Q)$$(CC_$(1)) $$(COMMON) $$(FLAGS_$(1)) $$(if $$(LINK_$(1)),-DWISP_STATIC) $$(ISA) $$(UNWATCHED_$(1)) \
	    $$(OBJECT)

build/$(1)/tests/%.o: tests/%.c Makefile | .tools/stamp/cmocka $(COMPILER_$(1))
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	$$(Q)$$(CC_$(1)) $$(COMMON) -Itests $$(FLAGS_$(1)) -isystem .tools/cmocka/include $$(OBJECT)

build/$(1)/cmocka.o: | .tools/stamp/cmocka $(COMPILER_$(1))
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) -w $$(or $$(CMOCKA_$(1)),-DHAVE_CONFIG_H) -I.tools/cmocka/src -I.tools/cmocka/include \
	    -c .tools/cmocka/src/cmocka.c -o $$(NEW) $$(MOVE)

build/$(1)/wisp: $$(CLI_$(1)) $$(LIB_$(1))
	$$(SAY) LINK $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) $$(LDFLAGS_$(1)) $$(LINK_$(1)) $$^ $$(LDLIBS) -o $$(NEW) $$(MOVE)

$$(TESTS_$(1)): build/$(1)/tests/%: build/$(1)/tests/%.o $$(SUPPORT_$(1)) $$(LIB_$(1))
	$$(SAY) LINK $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) $$(LINK_$(1)) $(WRAPPED) $$^ $$(LDLIBS) -o $$(NEW) $$(MOVE)

# The only C test of what JavaScript calls.
WRITING_$(1) := $$(patsubst %,build/$(1)/binding/%.o,engine generate/text)
build/$(1)/tests/unit/test_writing: $$(WRITING_$(1))
-include $$(WRITING_$(1):%.o=%.d)

# The decoder of images is in the library that the program loads, in static programs and in the test of it.
IMAGES_$(1) := $$(patsubst %,build/$(1)/images/%.o,file orientation wuffs/decoder)
build/$(1)/images/wuffs/decoder.o: FLAGS_$(1) += $(WUFFS_FLAGS)
build/$(1)/images/wuffs/decoder.o: | .tools/stamp/wuffs
build/$(1)/tests/unit/test_image_files: $$(IMAGES_$(1))
-include $$(IMAGES_$(1):%.o=%.d)

# The program loads libraries (src/http/curl.c), and so does the library (src/device/find_library.c). C libraries of before
# 2021 have dlopen in one of its own.
$$(TESTS_$(1)) build/$(1)/wisp build/$(1)/wisp-refusing $$(FUZZERS:fuzz_%=build/$(1)/replay_%): LDLIBS += $$(if $$(LINK_$(1)),,-ldl)

.SECONDARY: $$(LIB_$(1)) $$(CLI_$(1)) $$(SUPPORT_$(1)) $$(TESTS_$(1):%=%.o)
-include $$(patsubst %.o,%.d,$$(LIB_$(1)) $$(CLI_$(1)) $$(SUPPORT_$(1)) $$(TESTS_$(1):%=%.o))

# The program for tests that refuse its allocations.
build/$(1)/wisp-refusing: build/$(1)/tests/malformed/refuse.o $$(CLI_$(1)) $$(LIB_$(1))
	$$(SAY) LINK $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) $$(LINK_$(1)) $$^ $$(LDLIBS) -o $$(NEW) $$(MOVE)

# A fuzz target as a program that runs it once on each file of a corpus, and the writer of seeds.
REPLAYS_$(1) := $$(FUZZERS:fuzz_%=build/$(1)/replay_%)

$$(REPLAYS_$(1)): build/$(1)/replay_%: build/$(1)/tests/fuzz/fuzz_%.o build/$(1)/tests/fuzz/replay.o \
    $$(SUPPORT_$(1)) $$(filter-out %/main.o,$$(CLI_$(1))) $$(LIB_$(1))
build/$(1)/seeds: build/$(1)/tests/fuzz/seeds.o $$(SUPPORT_$(1)) $$(LIB_$(1))
$$(REPLAYS_$(1)) build/$(1)/seeds:
	$$(SAY) LINK $$@
	$$(Q)$$(CC_$(1)) $$(FLAGS_$(1)) $$(LINK_$(1)) $(WRAPPED) $$^ $$(LDLIBS) -o $$(NEW) $$(MOVE)

.SECONDARY: $$(patsubst %,build/$(1)/tests/fuzz/%.o,$$(FUZZERS) replay seeds)
-include $$(patsubst %,build/$(1)/tests/fuzz/%.d,$$(FUZZERS) replay seeds)
endef
$(foreach name,$(FLAVOURS),$(eval $(call flavour,$(name))))

# ---- native ---------------------------------------------------------------------------------------

.PHONY: native wasm
native: $(KERNELS_native) build/wisp build/libwisp.a build/libwisp.so # kernels first: they take longest

build/wisp: build/native/wisp
	$(Q)cp $< $(NEW) $(MOVE)

# Links one object in which all names but wisp_* are local, so that none collides with a user's name.
build/libwisp.o: $(LIB_native)
	$(SAY) LD $@
	$(Q)$(CC) -r -nostdlib $^ -o $(NEW) && objcopy --localize-hidden $(NEW) $(MOVE)

build/libwisp.a: build/libwisp.o
	$(SAY) AR $@
	$(Q)ar rcsD $(NEW) $< $(MOVE)

build/libwisp.so: $(LIB_native)
	$(SAY) LINK $@
	$(Q)$(CC) $(FLAGS_native) $(LDFLAGS) -shared -Wl,-soname,libwisp.so.0 -Wl,-Map=$@.map $^ $(LDLIBS) -o $(NEW) $(MOVE)

# ---- images ---------------------------------------------------------------------------------------

.PHONY: images
images: build/libwisp-images.so

build/libwisp-images.so: build/native/images/wuffs/decoder.o
	$(SAY) LINK $@
	$(Q)$(CC) $(FLAGS_native) $(LDFLAGS) -shared $^ -o $(NEW) $(MOVE)

# ---- addon ----------------------------------------------------------------------------------------

# The addon for Node has the core, threads, and what JavaScript calls. Its files see Node's headers from npm,
# and find Node's functions in the program that loads them.
# Those that need files of the system.
ADDON_FILES := $(addprefix src/,host/digest_files.c host/file.c host/input_file.c host/old_files.c host/own_file.c host/row_file.c host/scratch_file.c native/cold_file.c native/kv_file.c native/kv_frames.c native/prompt_folder.c native/vector_cache.c)
ADDON := $(PORTABLE) $(PRODUCT) src/host/pool_threads.c $(BINDING) $(wildcard src/node/*.c) $(ADDON_FILES)
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
	$(Q)$(CC) $(ADDON_LINK) $(ADDON_native) $(LDLIBS) -o $(NEW) $(MOVE)

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
ADDON_CC_win32-x64 = $(CC_windows) $(filter-out -O2 -g1,$(FLAGS_windows))
ADDON_LINKER_linux-x64-musl = $(CC) -nostdlib
ADDON_LIBS_linux-x64-musl = -lgcc
ADDON_SETUP_linux-x64-musl := .tools/stamp/musl
ADDON_SETUP_linux-arm64-gnu := .tools/stamp/aarch64
ADDON_SETUP_linux-arm64-musl := .tools/stamp/zig
ADDON_SETUP_darwin-arm64 := .tools/stamp/zig
WITHOUT_win32-x64 := $(WITHOUT_windows)
ONLY_win32-x64 := $(WINDOWS)
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
ADDON_$(1) := $$(patsubst src/%.c,build/addon/$(1)/%.o,$$(filter-out $$(WITHOUT_$(1)),$(ADDON) $$(wildcard src/kernels/$(2)/*.c)) $$(ONLY_$(1)))

build/addon/$(1)/%.o: src/%.c Makefile | $(ADDON_SETUP_$(1)) .tools/stamp/node_modules
	@mkdir -p $$(@D)
	$$(SAY) CC $$@
	$$(Q)$$(ADDON_CC_$(1)) $$(COMMON) -O3 -DNDEBUG -fPIC $$(ADDON_FLAGS) \
	    $$(or $$(ADDON_ISA_$(1)_$$(ISA_NAME)),$$(ISA)) $$(OBJECT)

# The addon opens no libraries: those of old systems are not linked.
$$(filter build/addon/$(1)/device/%,$$(ADDON_$(1))): ADDON_FLAGS += -DWISP_STATIC

build/addon/$(1).node: $$(ADDON_$(1)) src/node/exports.map
	$$(SAY) LINK $$@
	$$(Q)$$(or $$(ADDON_LINKER_$(1)),$$(ADDON_CC_$(1))) $$(or $$(ADDON_LINK_$(1)),$$(ADDON_LINK)) $$(ADDON_$(1)) \
	    $$(or $$(ADDON_LIBS_$(1)),$$(LDLIBS)) -o $$@

-include $$(ADDON_$(1):%.o=%.d)
endef
$(foreach target,$(ADDON_TARGETS),$(eval $(call addon_for,$(target),$(if $(findstring x64,$(target)),x86_64,aarch64))))

# gcc lists no headers of system folders, as those are that stand before mingw-w64's.
$(LIB_windows) $(LIB_windows:build/windows/%=build/addon/win32-x64/%) $(ADDON_win32-x64): \
    $(wildcard src/windows/*.h src/windows/include/*.h src/windows/include/sys/*.h)

# The packages for Linux have the program, too, for commands that JavaScript leaves to it (js/program/cli-program.js). It brings
# musl, so one serves all C libraries, the decoder of images, and CivetWeb without what reads files and starts programs.
CIVETWEB_FLAGS := -I.tools/civetweb-source/include -DNDEBUG -DNO_SSL -DNO_CGI -DNO_FILES -DNO_CACHING \
    -Wno-builtin-macro-redefined -D__DATE__='""'
define addon_program
PROGRAM_$(1) := $$(patsubst src/%.c,build/addon/linux-$(1)-musl/%.o,\
    $(PORTABLE) $(HOSTED) $(PRODUCT) $(CLI) src/images/wuffs/decoder.c $$(wildcard src/kernels/$(2)/*.c))
$$(filter build/addon/linux-$(1)-musl/http/%,$$(PROGRAM_$(1))): ADDON_FLAGS += -DWISP_STATIC
build/addon/linux-$(1)-musl/serve/civetweb.o: ADDON_FLAGS += -DWISP_CIVETWEB
build/addon/linux-$(1)-musl/images/library.o: ADDON_FLAGS += -DWISP_IMAGES
build/addon/linux-$(1)-musl/images/wuffs/decoder.o: ADDON_FLAGS += $$(WUFFS_FLAGS)
build/addon/linux-$(1)-musl/images/wuffs/decoder.o: | .tools/stamp/wuffs

build/addon/linux-$(1)-musl/civetweb.o: | .tools/stamp/civetweb-source $$(ADDON_SETUP_linux-$(1)-musl)
	$$(SAY) CC $$@
	$$(Q)$$(ADDON_CC_linux-$(1)-musl) -O2 -w $$(CIVETWEB_FLAGS) -c .tools/civetweb-source/src/civetweb.c -o $$@

build/addon/linux-$(1).program: $$(PROGRAM_$(1)) build/addon/linux-$(1)-musl/civetweb.o
	$$(SAY) LINK $$@
	$$(Q)$$(ADDON_CC_linux-$(1)-musl) -static -Wl,--gc-sections -s $$^ $$(LDLIBS) -o $$(NEW) $$(MOVE)

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

# Shows the native answer first, and then the one module that this Node runs. Emscripten comes beside the compilation.
.PHONY: demo demo-tools demo-native demo-modules
demo:
	$(Q)python3 tools/check_programs.py node
	$(Q)WISP_DEMO_START=$$(date +%s) $(MAKE) --no-print-directory \
	    demo-tools demo-native demo-modules BUILD=$$(node tools/demo.mjs build)

demo-tools: .tools/stamp/wasm-cc
	@:

demo-native: $(KERNELS_native) build/wisp
	$(Q)node tools/demo.mjs native

demo-modules: demo-native js/wisp-$(BUILD).wasm
	$(Q)node tools/demo.mjs modules

# Serves the page and prints its address; "make serve ARGS=--isolated" allows shared memory.
.PHONY: serve
serve: wasm
	@node tools/serve.mjs $(ARGS)

# The model of the page that draws neurons is the default one, calibrated by the texts at hand. The page makes it of the
# default one and of this patch, which is in the repository: it is written again only if the default model changes.
.PHONY: calibrated-patch
calibrated-patch: build/calibrated.gguf
	node tools/make_patch.mjs models/wisp-default.gguf $< web-demo/calibrated.patch.gz

build/calibrated.gguf: models/wisp-default.gguf | build/wisp
	$(SAY) FIT $@
	$(Q)node tools/demo_texts.mjs | build/wisp calibrate $< --data - --tokens 12000 --hot 0.8 --hot-tokens 6000 \
	    --predictor-type q4_0 -o $@ > build/calibrated.txt

# ---- WebAssembly ----------------------------------------------------------------------------------

WASM_COMMON = -std=c11 -D_GNU_SOURCE -Isrc -O3 -DNDEBUG -fvisibility=hidden -ffp-contract=off \
              $(WARNINGS) -MMD -MP
# Without these Emscripten compiles libraries of C++, OpenGL and OpenAL, which nothing calls.
WASM_C_ONLY = -sDEFAULT_TO_CXX=0 -sAUTO_NATIVE_LIBRARIES=0
WASM_LEVEL = -O3
WASM_LINK = $(WASM_LEVEL) --no-entry -sSTANDALONE_WASM -sFILESYSTEM=0 -sMALLOC=emmalloc \
            -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=1MB -sSTACK_SIZE=256KB \
            -sERROR_ON_UNDEFINED_SYMBOLS=0 $(WASM_C_ONLY)
# Every user downloads the modules. So code that runs once, or once for a batch, is compiled for size,
# and so are the scalar kernels, which are never the fastest: folders of such code, and files that say so. Folders without
# loops over weights or texts come first: there the smallest code is as fast.
WASM_LEAST := src/base/% src/tokenizers/bert_tokenizer_open.c src/sparse/neuron_% src/sparse/ffn_load.c src/sparse/plan.c src/kernels/select.c \
    src/formats/% src/models/% src/engine/% src/chat/% wasm/% src/binding/% src/products/%
WASM_SMALL := $(shell grep -l '^ \* Compiled for size in WebAssembly\. \*/' $(PORTABLE))
WASM_ONCE = $(if $(filter $(WASM_LEAST),$<),-Oz,$(if $(filter src/weights/% $(WASM_SMALL),$<),-Os))
WASM_simd128 = -msimd128
WASM_relaxed = -msimd128 -mrelaxed-simd
# Engines have no instructions for products of bfloats.
WASM_WITHOUT := src/kernels/bf16_scalar.c src/weights/bfloats.c
WASM_SOURCES := $(filter-out $(LANGUAGES) $(WASM_WITHOUT),$(PORTABLE)) $(wildcard src/binding/*.c wasm/*.c)

# There are two modules for each instruction set. wisp-*.wasm only embeds texts, wisp-generate-*.wasm has everything, and
# the exports in src/binding/generate. Files with a name of base/product.h are compiled for each, all others are shared.
WASM_NAMES := $(shell sed -nE 's/^(    |\#define )([A-Z_]+)( = .*)?$$/\2/p' src/base/product.h)
WASM_ASKING := $(shell grep -lw $(WASM_NAMES:%=-e %) $(WASM_SOURCES))
WASM_ONLY_EMBED := $(wildcard src/binding/embed/*.c wasm/embed/*.c) src/products/embed.c
WASM_ONLY_GENERATE := $(wildcard src/binding/generate/*.c src/binding/embed/*.c wasm/generate/*.c) src/binding/languages/ask.c src/products/generate.c
WASM_GENERATE := $(WASM_ASKING) $(WASM_ONLY_GENERATE)

# $(call wasm_objects,PRODUCT-,SET,FILES): the objects of files for a product and an instruction set. Files that do not ask
# for the set are compiled once, for simd128: with relaxed SIMD the compiler makes the same code of them.
WASM_BY_SET := $(shell grep -lw __wasm_relaxed_simd__ $(WASM_SOURCES) tests/kernels/*.c) $(wildcard src/kernels/relaxed/*.c)
wasm_objects = $(foreach file,$(3),build/wasm/$(1)$(if $(filter $(WASM_BY_SET),$(file)),$(2),simd128)/$(file:%.c=%.o))

# wisp-encoders-*.wasm scores pairs of texts and embeds by all encoders: what wisp-generate-*.wasm is compiled of, with
# other exports.
WASM_ONLY_ENCODERS := $(wildcard src/binding/embed/*.c src/binding/rank/*.c) src/products/encoders.c
# wisp-udf-*.wasm is the same with the exports that databases call (wasm/udf), for `wisp convert --udf`.
# wisp-embed-threads-*.wasm and wisp-threads-*.wasm are the two again, with memory that the workers of a team share. What
# uses atomics is compiled again for that; the linker refuses such an object that is not.
WASM_THREADS = -matomics -mbulk-memory
WASM_ATOMIC := $(shell grep -lE '\<(_Atomic|atomic_\w+)\>' $(WASM_SOURCES)) $(wildcard wasm/threads/*.c)
# tools/setup.py says there why the Emscripten that it found cannot build them, if it cannot.
WITHOUT_THREADS = .tools/emcc-without-threads
WASM_LINK_THREADS = -sINITIAL_MEMORY=4MB -sSHARED_MEMORY -sIMPORTED_MEMORY -Wl,--export=__stack_pointer
WASM_MODULES := $(foreach set,simd128 relaxed,js/wisp-$(set).wasm js/wisp-generate-$(set).wasm js/wisp-threads-$(set).wasm \
    js/wisp-embed-threads-$(set).wasm js/wisp-encoders-$(set).wasm js/wisp-udf-$(set).wasm)

# Modules lie beside the JavaScript that loads them, as in the package.
wasm: $(WASM_MODULES) js/wisp-languages.wasm js/wisp-convert.wasm js/wisp-program.wasm js/index/index-kernels.js common-js

# The entries for require(), which the package has, too.
.PHONY: common-js
common-js: js/node.cjs
js/node.cjs: tools/common-js.mjs $(wildcard js/*.js)
	$(Q)node $< js

js/%.wasm: build/wasm/%.wasm
	$(Q)test ! -e $< || { cp $< $(NEW) $(MOVE); }

# The module of indexes is so small that a script holds it. It needs no libraries and no malloc.
WASM_INDEX := wasm/index/index.c src/base/checksum.c
WASM_LINK_INDEX = -O3 --no-entry -sSTANDALONE_WASM -sFILESYSTEM=0 -sMALLOC=none -sALLOW_MEMORY_GROWTH \
                  -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=128KB -sSTACK_SIZE=16KB -Wl,--export=__heap_base \
                  $(WASM_C_ONLY)

build/wasm/wisp-index.wasm: $(WASM_INDEX) src/base/checksum.h src/base/byte_order.h Makefile | .tools/stamp/emcc
	@mkdir -p $(@D)
	$(SAY) EMCC $@
	$(Q).tools/bin/emcc $(filter-out -MMD -MP,$(WASM_COMMON)) $(WASM_simd128) $(WASM_LINK_INDEX) $(WASM_INDEX) -o $(NEW) $(MOVE)

js/index/index-kernels.js: build/wasm/wisp-index.wasm tools/embed_kernels.mjs
	$(Q)node tools/embed_kernels.mjs $< $(NEW) $(MOVE)

# The module that converts models is loaded only for that. Of these files the linker takes what wisp_convert reaches.
WASM_CONVERT := src/products/convert.c $(foreach folder,base quant formats text tokenizers huggingface convert,$(wildcard src/$(folder)/*.c)) \
                src/kernels/weights.c src/native/open_path.c src/host/part_names.c $(wildcard wasm/convert/*.c)
OBJECTS_convert := $(WASM_CONVERT:%.c=build/wasm/convert/%.o)

build/wasm/convert/%.o: %.c Makefile | .tools/stamp/wasm-cc
	@mkdir -p $(@D)
	$(SAY) EMCC $@
	$(Q).tools/bin/wasm-cc $(WASM_COMMON) $(if $(filter src/quant/%,$<),,-Os) $(WASM_simd128) $(OBJECT)

build/wasm/wisp-convert.wasm: $(OBJECTS_convert)
	$(SAY) LINK $@
	$(Q).tools/bin/emcc $(WASM_LINK) -sINITIAL_MEMORY=4MB -sSTACK_SIZE=1MB $(WASM_simd128) -Wl$(comma)-Map=$@.map $^ -o $(NEW) $(MOVE)

-include $(OBJECTS_convert:%.o=%.d)

# The module that reads templates, grammars and schemas. Modules that generate ask it (wasm/generate), and pages load it
# when they need it.
OBJECTS_languages := $(patsubst %.c,build/wasm/languages/%.o,\
    $(foreach folder,base text grammar,$(wildcard src/$(folder)/*.c)) $(LANGUAGES) src/binding/languages/answer.c \
    $(wildcard wasm/languages/*.c))

build/wasm/languages/%.o: %.c Makefile | .tools/stamp/wasm-cc
	@mkdir -p $(@D)
	$(SAY) EMCC $@
	$(Q).tools/bin/wasm-cc $(WASM_COMMON) -Oz $(WASM_simd128) $(OBJECT)

build/wasm/wisp-languages.wasm: $(OBJECTS_languages)
	$(SAY) LINK $@
	$(Q).tools/bin/emcc $(WASM_LINK) $(WASM_simd128) -Wl$(comma)-Map=$@.map $^ -o $(NEW) $(MOVE)

-include $(OBJECTS_languages:%.o=%.d)

define wasm_build
KERNELS_$(1) := $(wildcard src/kernels/$(1)/*.c)
OBJECTS_$(1) := $$(call wasm_objects,,$(1),$(WASM_SOURCES) $$(KERNELS_$(1)) $(WASM_ONLY_EMBED))

NOT_ASKING_$(1) := $$(call wasm_objects,,$(1),$(filter-out $(WASM_ASKING),$(WASM_SOURCES)))
OBJECTS_generate-$(1) := $$(call wasm_objects,generate-,$(1),$(WASM_GENERATE) $$(KERNELS_$(1))) $$(NOT_ASKING_$(1))
OBJECTS_encoders-$(1) := $$(call wasm_objects,generate-,$(1),$(WASM_ASKING) $$(KERNELS_$(1)) $(WASM_ONLY_ENCODERS)) \
    $$(NOT_ASKING_$(1))

OBJECTS_udf-$(1) := $$(call wasm_objects,generate-,$(1),wasm/udf/udf.c) $$(filter-out %/wasm/host.o $$(foreach folder,\
    simd128 generate-simd128 $(1) generate-$(1),build/wasm/$$(folder)/src/binding/%),$$(OBJECTS_encoders-$(1)))

THREADED_$(1) := $(filter-out wasm/pool_single.c $(WASM_ASKING),$(WASM_SOURCES)) $(wildcard wasm/threads/*.c)
OBJECTS_threads-$(1) := $$(call wasm_objects,threads-,$(1),$$(filter $(WASM_ATOMIC),$$(THREADED_$(1)) $(WASM_GENERATE))) \
    $$(call wasm_objects,,$(1),$$(filter-out $(WASM_ATOMIC),$$(THREADED_$(1)))) \
    $$(call wasm_objects,generate-,$(1),$$(filter-out $(WASM_ATOMIC),$(WASM_GENERATE) $$(KERNELS_$(1))))
OBJECTS_embed-threads-$(1) := $$(call wasm_objects,threads-,$(1),$$(filter $(WASM_ATOMIC),$$(THREADED_$(1)))) \
    $$(call wasm_objects,embed-threads-,$(1),$$(filter $(WASM_ATOMIC),$(WASM_ASKING))) \
    $$(call wasm_objects,,$(1),$$(filter-out $(WASM_ATOMIC),$$(THREADED_$(1)) $(WASM_ASKING) $(WASM_ONLY_EMBED) $$(KERNELS_$(1))))

build/wasm/$(1)/%.o: %.c Makefile | .tools/stamp/wasm-cc
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/wasm-cc $$(WASM_COMMON) $$(WASM_ONCE) $$(WASM_$(1)) -DWISP_EMBED_ONLY $$(OBJECT)

build/wasm/generate-$(1)/%.o: %.c Makefile | .tools/stamp/wasm-cc
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/wasm-cc $$(WASM_COMMON) $$(WASM_ONCE) $$(WASM_$(1)) $$(OBJECT)

build/wasm/threads-$(1)/%.o: %.c Makefile | .tools/stamp/wasm-cc
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/wasm-cc $$(WASM_COMMON) $$(WASM_ONCE) $$(WASM_$(1)) $$(WASM_THREADS) $$(OBJECT)

build/wasm/embed-threads-$(1)/%.o: %.c Makefile | .tools/stamp/wasm-cc
	@mkdir -p $$(@D)
	$$(SAY) EMCC $$@
	$$(Q).tools/bin/wasm-cc $$(WASM_COMMON) $$(WASM_ONCE) $$(WASM_$(1)) $$(WASM_THREADS) -DWISP_EMBED_ONLY $$(OBJECT)

build/wasm/wisp-threads-$(1).wasm: $$(OBJECTS_threads-$(1))
build/wasm/wisp-embed-threads-$(1).wasm: $$(OBJECTS_embed-threads-$(1))
build/wasm/wisp-threads-$(1).wasm build/wasm/wisp-embed-threads-$(1).wasm:
	$$(SAY) LINK $$@
	$$(Q)if [ -e $$(WITHOUT_THREADS) ]; then echo "  left out: $$@: $$$$(cat $$(WITHOUT_THREADS))"; else \
	    .tools/bin/emcc $$(WASM_LINK) $$(WASM_LINK_THREADS) $$(WASM_$(1)) -Wl$$(comma)-Map=$$@.map $$^ -o $$(NEW) $$(MOVE); fi

# After the linker, optimising for size makes these smaller, and those that generate larger.
build/wasm/wisp-$(1).wasm build/wasm/wisp-encoders-$(1).wasm build/wasm/wisp-embed-threads-$(1).wasm \
build/wasm/wisp-languages.wasm: WASM_LEVEL = -Os -sBINARYEN_EXTRA_PASSES=-Os,-Oz
build/wasm/wisp-$(1).wasm: $$(OBJECTS_$(1))
build/wasm/wisp-generate-$(1).wasm: $$(OBJECTS_generate-$(1))
build/wasm/wisp-encoders-$(1).wasm: $$(OBJECTS_encoders-$(1))
build/wasm/linked-udf-$(1).wasm: $$(OBJECTS_udf-$(1))
build/wasm/wisp-$(1).wasm build/wasm/wisp-generate-$(1).wasm build/wasm/wisp-encoders-$(1).wasm build/wasm/linked-udf-$(1).wasm:
	$$(SAY) LINK $$@
	$$(Q).tools/bin/emcc $$(WASM_LINK) $$(WASM_$(1)) -Wl$$(comma)-Map=$$@.map $$^ -o $$(NEW) $$(MOVE)

build/wasm/wisp-udf-$(1).wasm: build/wasm/linked-udf-$(1).wasm tools/udf_template.mjs
	$$(Q)node tools/udf_template.mjs $$< $$(NEW) $$(MOVE)

-include $$(patsubst %.o,%.d,$$(OBJECTS_$(1)) $$(OBJECTS_generate-$(1)) $$(OBJECTS_threads-$(1)) \
    $$(OBJECTS_embed-threads-$(1)) $$(OBJECTS_encoders-$(1)) $$(OBJECTS_udf-$(1)))
endef
$(eval $(call wasm_build,simd128))
$(eval $(call wasm_build,relaxed))

# The program for Node, with the commands of wasm/program/commands.c: a file there takes the place of that of src/cli
# with its name. What it shares with the module that converts, those that generate or that of languages is compiled once.
PROGRAM := $(filter-out $(patsubst wasm/program/%,src/cli/%,$(wildcard wasm/program/*.c)) src/host/pool_threads.c $(WASM_CONVERT),\
    $(foreach folder,calibrate quantise cli host index native,$(wildcard src/$(folder)/*.c)) $(wildcard wasm/program/*.c))
PROGRAM_ENGINE := $(filter-out $(WASM_CONVERT) $(WASM_WITHOUT),$(PORTABLE)) wasm/pool_single.c $(wildcard src/kernels/simd128/*.c)
OBJECTS_program := $(patsubst %.c,build/wasm/program/%.o,$(PROGRAM) $(PRODUCT)) \
    $(filter-out build/wasm/convert/wasm/% build/wasm/convert/src/products/%,$(OBJECTS_convert)) \
    $(filter $(PROGRAM_ENGINE:%.c=build/wasm/simd128/%.o) $(PROGRAM_ENGINE:%.c=build/wasm/generate-simd128/%.o),\
        $(OBJECTS_generate-simd128)) $(LANGUAGES:%.c=build/wasm/languages/%.o)

build/wasm/program/%.o: %.c Makefile | .tools/stamp/wasm-cc
	@mkdir -p $(@D)
	$(SAY) EMCC $@
	$(Q).tools/bin/wasm-cc $(WASM_COMMON) -Os $(WASM_simd128) $(OBJECT)

build/wasm/wisp-program.wasm: $(OBJECTS_program)
	$(SAY) LINK $@
	$(Q).tools/bin/emcc $(filter-out --no-entry,$(WASM_LINK)) -sINITIAL_MEMORY=4MB -sSTACK_SIZE=1MB $(WASM_simd128) \
	    -Wl$(comma)-Map=$@.map $^ -o $(NEW) $(MOVE)

-include $(PROGRAM:%.c=build/wasm/program/%.d)

include python/rules.mk
include tests/rules.mk
include tests/cuda/rules.mk
include bench/rules.mk

# ---- lint -----------------------------------------------------------------------------------------

C_FILES := $(sort $(wildcard src/*.h src/*/*.[ch] src/*/*/*.[ch] wasm/*.[ch] wasm/*/*.c tests/*.[ch] tests/*/*.[ch] bench/*/*.c))
NATIVE_C := $(PORTABLE) $(HOSTED) $(PRODUCT) $(CLI) $(TEST_FILES) $(TEST_SUPPORT) \
            $(wildcard tests/fuzz/*.c tests/oracle/*.c src/binding/*.c src/binding/*/*.c src/node/*.c) tests/malformed/refuse.c
TIDY_FLAGS = -std=c11 -D_GNU_SOURCE -Isrc -Itests -isystem .tools/cmocka/include $(ADDON_FLAGS)

.PHONY: lint lint-includes lint-commits lint-format lint-warnings lint-tidy lint-cppcheck lint-js format
lint: lint-includes lint-commits lint-format lint-warnings lint-tidy lint-cppcheck lint-js lint-python

# Includes form no circle and point downwards; docs/folders.svg shows them.
lint-includes:
	$(RUN) lint/includes -- python3 tools/check_includes.py
	$(RUN) lint/picture -- python3 tools/draw_folders.py --check

# Commit messages name no path of one machine.
lint-commits:
	$(RUN) lint/commits -- python3 tools/check_commits.py

lint-format: | .tools/stamp/clang
	$(RUN) lint/format -- .tools/bin/clang-format --dry-run -Werror $(C_FILES)

# The slow ones check one folder at a time: run/lint/tidy/src/text. $(call files_in,FOLDER,FILES) are those of a folder.
files_in = $(foreach file,$(2),$(if $(filter $(1)/,$(dir $(file))),$(file)))
C_FOLDERS := $(sort $(patsubst %/,%,$(dir $(NATIVE_C))))
TIDIED := $(PORTABLE) $(HOSTED) $(CLI) $(PRODUCT)
TIDIED_FOLDERS := $(sort $(patsubst %/,%,$(dir $(TIDIED))))
LINT_TIDY := $(TIDIED_FOLDERS:%=run/lint/tidy/%)
LINT_CPPCHECK := $(TIDIED_FOLDERS:%=run/lint/cppcheck/%)
LINT_WARNINGS := $(C_FOLDERS:%=run/lint/warnings/%)
# In CI a fifth of the folders of clang-tidy and cppcheck take turns (tests/rules.mk).
in_turn = $(if $(TURN),$(shell printf '%s\n' $(1) | awk 'NR % 5 == $(TURN)'),$(1))
.PHONY: $(LINT_TIDY) $(LINT_CPPCHECK) $(LINT_WARNINGS) run/lint/eslint run/lint/prettier run/lint/tsc

# gcc and clang find different faults; neither may find any. clang finds them without generating code. In CI gcc's are
# errors of the native build (FLAGS_native), so that it compiles no file twice.
lint-warnings: $(LINT_WARNINGS)
$(LINT_WARNINGS): run/lint/warnings/%: | .tools/stamp/clang .tools/stamp/cmocka .tools/stamp/node_modules
	$(RUN) lint/warnings/$* -- sh -ec 'for file in $(call files_in,$*,$(NATIVE_C)); do \
	        $(if $(CI),,gcc $(TIDY_FLAGS) -O1 $(WARNINGS) -Werror -c $$file -o /dev/null;) \
	        .tools/bin/clang $(TIDY_FLAGS) -fsyntax-only $(WARNINGS) -Werror $$file; \
	    done'

lint-tidy: $(call in_turn,$(LINT_TIDY))
$(LINT_TIDY): run/lint/tidy/%: | .tools/stamp/clang .tools/stamp/cmocka
	$(RUN) lint/tidy/$* -- .tools/bin/clang-tidy --quiet $(call files_in,$*,$(TIDIED)) -- $(TIDY_FLAGS)

lint-cppcheck: $(call in_turn,$(LINT_CPPCHECK))
$(LINT_CPPCHECK): run/lint/cppcheck/%: | .tools/stamp/cppcheck
	$(RUN) lint/cppcheck/$* -- .tools/bin/cppcheck --quiet --std=c11 --enable=warning,performance,portability \
	    --inline-suppr --suppressions-list=tools/cppcheck-suppressions --error-exitcode=1 -Isrc \
	    $(call files_in,$*,$(TIDIED))

lint-js: run/lint/eslint run/lint/prettier run/lint/tsc
run/lint/eslint run/lint/prettier run/lint/tsc: | .tools/stamp/node_modules
run/lint/tsc: | common-js
run/lint/eslint:
	$(RUN) lint/eslint -- node_modules/.bin/eslint .
run/lint/prettier:
	$(RUN) lint/prettier -- node_modules/.bin/prettier --check .
run/lint/tsc:
	$(RUN) lint/tsc -- node_modules/.bin/tsc

format: | .tools/stamp/clang .tools/stamp/node_modules
	.tools/bin/clang-format -i $(C_FILES)
	npm run --silent format

# ---- install --------------------------------------------------------------------------------------

# What is installed, below PREFIX and, of the library, below LIBDIR. Symbols for debuggers stay in build/: STRIP=: installs
# them too.
INSTALLED_FILES := include/wisp.h $(patsubst src/%,include/%,$(wildcard src/wisp/*.h)) bin/wisp \
    share/wisp/wisp-default.gguf share/wisp/wisp-stories.gguf share/man/man1/wisp.1 \
    share/bash-completion/completions/wisp share/fish/vendor_completions.d/wisp.fish share/zsh/site-functions/_wisp
INSTALLED_LIBRARY := libwisp.so.$(VERSION) libwisp.so.0 libwisp.so libwisp.a pkgconfig/wisp.pc
# For wisp convert --udf, if they are built.
INSTALLED_MODULES := wisp-udf-simd128.wasm wisp-udf-relaxed.wasm
# For images, if it is built.
INSTALLED_DECODER := libwisp-images.so
STRIP = strip
TO = "$(DESTDIR)$(PREFIX)/$(1)"
TO_LIB = "$(DESTDIR)$(LIBDIR)/$(1)"

.PHONY: install uninstall
install: native
	python3 tools/write_manual.py build/wisp build/manual
	install -d $(foreach folder,$(sort $(dir $(INSTALLED_FILES))),$(call TO,$(folder))) $(call TO_LIB,pkgconfig)
	install build/wisp $(call TO,bin/)
	install -m 644 build/libwisp.so $(call TO_LIB,libwisp.so.$(VERSION))
	install -m 644 src/wisp.h $(call TO,include/)
	install -m 644 src/wisp/*.h $(call TO,include/wisp/)
	install -m 644 build/libwisp.a $(call TO_LIB,)
	$(STRIP) $(call TO,bin/wisp) $(call TO_LIB,libwisp.so.$(VERSION))
	$(STRIP) --strip-debug $(call TO_LIB,libwisp.a)
	$(if $(wildcard build/$(INSTALLED_DECODER)),install -m 644 build/$(INSTALLED_DECODER) $(call TO_LIB,) && $(STRIP) $(call TO_LIB,$(INSTALLED_DECODER)))
	ln -sf libwisp.so.$(VERSION) $(call TO_LIB,libwisp.so.0)
	ln -sf libwisp.so.0 $(call TO_LIB,libwisp.so)
	install -m 644 models/wisp-default.gguf models/wisp-stories.gguf $(wildcard $(INSTALLED_MODULES:%=js/%)) $(call TO,share/wisp/)
	install -m 644 build/manual/wisp.1 $(call TO,share/man/man1/)
	install -m 644 build/manual/wisp.bash $(call TO,share/bash-completion/completions/wisp)
	install -m 644 build/manual/wisp.fish $(call TO,share/fish/vendor_completions.d/)
	install -m 644 build/manual/_wisp $(call TO,share/zsh/site-functions/)
	sed -e 's|@PREFIX@|$(subst &,\&,$(PREFIX))|' -e 's|@LIBDIR@|$(subst &,\&,$(subst $(PREFIX)/,$${prefix}/,$(LIBDIR)))|' \
	    -e 's|@VERSION@|$(VERSION)|' tools/wisp.pc.in > $(call TO_LIB,pkgconfig/wisp.pc)
	chmod 644 $(call TO_LIB,pkgconfig/wisp.pc)

# Removes what install wrote, and folders of wisp's own.
uninstall:
	rm -f $(foreach file,$(INSTALLED_FILES) $(INSTALLED_MODULES:%=share/wisp/%),$(call TO,$(file))) \
	    $(foreach file,$(INSTALLED_LIBRARY) $(INSTALLED_DECODER),$(call TO_LIB,$(file)))
	-rmdir $(call TO,include/wisp) $(call TO,share/wisp)

# ---- release --------------------------------------------------------------------------------------

# All that a release consists of, in build/release (tools/release.py): archives, npm packages and wheels of all platforms,
# sources, notes, digests. RELEASE_FLAGS=--draft takes the unreleased changes as its notes.
.PHONY: release
release: native images package addon-packages wheels sbom
	rm -rf build/release build/release.tree
	$(MAKE) --no-print-directory install DESTDIR=build/release.tree PREFIX=/usr/local
	$(Q)for package in build/packages/*/; do npm pack --silent --pack-destination build/packages "./$$package"; done
	python3 tools/release.py $(RELEASE_FLAGS) build/release.tree build/release

# ---- tools ----------------------------------------------------------------------------------------

.tools/stamp/%:
	$(SETUP) $*
	@touch $@

.tools/stamp/wasm-cc: | .tools/stamp/emcc
.tools/stamp/node_modules: package.json package-lock.json
.tools/stamp/python: tools/requirements.txt
.tools/stamp/wheel: tools/requirements-wheel.txt
.tools/stamp/adapters: tools/requirements-adapters.txt
.tools/stamp/clickhouse: tools/requirements-clickhouse.txt
