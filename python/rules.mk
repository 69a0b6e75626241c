# SPDX-License-Identifier: Apache-2.0
# The Python package: `make wheel` builds the wheel of this machine, `make wheels` those of all platforms, into
# build/wheels. `make test-python` runs python/tests against the package as it is in the wheel, `make test-adapters`
# those of the adapters with the real packages, `make test-wheel` that the wheel installs and works offline.

PYTHON_FILES := $(wildcard python/*.* python/wisp_engine/* python/tests/*)
PYTHON_MODELS := models/wisp-default.gguf models/wisp-stories.gguf
PYTHON_WHEEL = .tools/bin/python-wheel

.PHONY: python wheel wheels test-wheel run/wheel test-python test-adapters run/python run/clickhouse run/adapters lint-python
python: build/python/ready

# The package as a folder, with all that a wheel has.
build/python/ready: $(PYTHON_FILES) $(PYTHON_MODELS) src/wisp.h $(wildcard src/wisp/*.h) build/libwisp.so | .tools/stamp/wheel
	$(SAY) PYTHON build/python
	$(Q)rm -rf $(@D) && mkdir -p $(@D) && cp -r python/. $(@D)
	$(Q)mkdir -p $(@D)/wisp_engine/models && cp $(PYTHON_MODELS) $(@D)/wisp_engine/models/
	$(Q)printf '%s\n' '$(VERSION)' > $(@D)/version.txt
	$(Q)$(PYTHON_WHEEL) python/abi.py src/wisp.h $(@D)/wisp_engine/_wisp.py
	$(Q)cp build/libwisp.so $(@D)/wisp_engine/
	@touch $@

test-python: run/python
run/python: build/python/ready js/wisp-udf-simd128.wasm js/wisp-udf-relaxed.wasm js/wisp-convert.wasm
	$(RUN) python -- sh -c 'cd build/python && WISP_REPO=$(CURDIR) $(CURDIR)/$(PYTHON_WHEEL) -m pytest \
	    -p no:cacheprovider tests --ignore=tests/test_adapters.py --ignore=tests/test_parquet.py --ignore=tests/test_ray.py --ignore=tests/test_wheel.py'

# The SQL of docs/scale.md in ClickHouse, and the example in Go. CI runs them in turns (tests/rules.mk).
run/clickhouse: build/python/ready js/wisp-udf-simd128.wasm js/wisp-convert.wasm | .tools/stamp/clickhouse
	$(RUN) clickhouse -- sh -c 'cd build/python && WISP_UDF_HOSTS=1 WISP_REPO=$(CURDIR) \
	    $(CURDIR)/.tools/bin/python-clickhouse -m pytest -p no:cacheprovider tests/test_udf.py -k "clickhouse or test_go"'

# Adapters, each with the real package. Installing all of them takes minutes and 2 GB.
test-adapters: run/adapters
run/adapters: build/python/ready | .tools/stamp/adapters
	$(RUN) adapters -- sh -c 'cd build/python && WISP_REPO=$(CURDIR) $(CURDIR)/.tools/bin/python-adapters -m pytest \
	    -p no:cacheprovider tests/test_adapters.py tests/test_parquet.py tests/test_ray.py'

lint-python: build/python/ready
	$(Q)cd build/python && $(CURDIR)/$(PYTHON_WHEEL) -m mypy --cache-dir=$(CURDIR)/build/mypy wisp_engine abi.py
	$(Q)$(PYTHON_WHEEL) -m ruff check --quiet --no-cache python

# ---- wheels ---------------------------------------------------------------------------------------
#
# A wheel's library has the core and what reads files, as the addon's packages have the core: compiled for glibc from
# 2.28 on, for musl without naming a C library, for macOS by zig, and for Windows by mingw-w64 with its C library's parts inside.

WHEEL_TARGETS := linux-x64-gnu linux-x64-musl linux-arm64-gnu linux-arm64-musl darwin-arm64 win32-x64
WHEEL_PLATFORM_linux-x64-gnu := manylinux_2_28_x86_64
WHEEL_PLATFORM_linux-x64-musl := musllinux_1_2_x86_64
WHEEL_PLATFORM_linux-arm64-gnu := manylinux_2_28_aarch64
WHEEL_PLATFORM_linux-arm64-musl := musllinux_1_2_aarch64
WHEEL_PLATFORM_darwin-arm64 := macosx_13_0_arm64
WHEEL_PLATFORM_win32-x64 := win_amd64
WHEEL_LIBRARY = libwisp.so
WHEEL_LIBRARY_darwin-arm64 := libwisp.dylib
WHEEL_LIBRARY_win32-x64 := wisp.dll
WHEEL_LINK = -shared -Wl,--gc-sections -s
WHEEL_LINK_darwin-arm64 = -shared -Wl,-dead_strip -Wl,-s
WHEEL_LINK_win32-x64 = $(WHEEL_LINK) -static -Wl,--export-all-symbols -Wl,--version-script=src/windows/exports.map
# The addon's are Node's functions.
WHEEL_LIBS_win32-x64 = $(LDLIBS)

define wheel_for
WHEEL_$(1) := $$(patsubst src/%.c,build/addon/$(1)/%.o,$$(filter-out $$(WITHOUT_$(1)),$(PORTABLE) $(HOSTED) \
    $$(wildcard src/kernels/$(2)/*.c)) $(PRODUCT) $$(ONLY_$(1)))

FILE_$(1) := $$(or $$(WHEEL_LIBRARY_$(1)),$$(WHEEL_LIBRARY))
build/wheel/$(1)/$$(FILE_$(1)): $$(WHEEL_$(1))
	@mkdir -p $$(@D)
	$$(SAY) LINK $$@
	$$(Q)$$(or $$(ADDON_LINKER_$(1)),$$(ADDON_CC_$(1))) $$(or $$(WHEEL_LINK_$(1)),$$(WHEEL_LINK)) $$^ \
	    $$(or $$(WHEEL_LIBS_$(1)),$$(ADDON_LIBS_$(1)),$$(LDLIBS)) -o $$@

-include $$(WHEEL_$(1):%.o=%.d)

.PHONY: wheel-$(1)
wheel-$(1): build/wheel/$(1)/$$(FILE_$(1)) build/python/ready
	$$(SAY) WHEEL $$(WHEEL_PLATFORM_$(1))
	$$(Q)rm -rf build/wheel/$(1)/package && cp -r build/python build/wheel/$(1)/package
	$$(Q)cd build/wheel/$(1)/package && rm -rf wisp_engine/libwisp.so && find . -name __pycache__ -prune -exec rm -r {} + \
	    && cp ../$$(FILE_$(1)) wisp_engine/
	$$(Q)cd build/wheel/$(1)/package && SOURCE_DATE_EPOCH=315532800 WISP_PLATFORM=$$(WHEEL_PLATFORM_$(1)) \
	    $(CURDIR)/$(PYTHON_WHEEL) -m hatchling build -t wheel -d $(CURDIR)/build/wheels > /dev/null
endef
$(foreach target,$(WHEEL_TARGETS),$(eval $(call wheel_for,$(target),$(if $(findstring x64,$(target)),x86_64,aarch64))))

WHEEL_HERE := linux-$(if $(filter x86_64,$(MACHINE)),x64,arm64)-gnu
wheel: wheel-$(WHEEL_HERE)

# Installs this machine's wheel without an index, and uses it without a network.
test-wheel: run/wheel
run/wheel: wheel
	$(RUN) wheel -- sh -c 'cd build/python && WISP_WHEEL=$(CURDIR)/build/wheels/wisp_engine-$(VERSION)-py3-none-$(WHEEL_PLATFORM_$(WHEEL_HERE)).whl \
	    $(CURDIR)/$(PYTHON_WHEEL) -m pytest -p no:cacheprovider tests/test_wheel.py'

wheels: $(WHEEL_TARGETS:%=wheel-%)
