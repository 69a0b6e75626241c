# SPDX-License-Identifier: Apache-2.0
# CUDA: the device library, its tests on the processor (by an emulator) and on a GPU, and its benchmark.
#
#   make cuda            build/libwisp-cuda.so, by nvcc from PATH or from .tools/
#   make test-cuda-shim  every kernel on the processor, under ASan and UBSan
#   make cuda-compile    all architectures, warnings as errors, and what ptxas says of registers
#   make test-cuda       the same tests and whole models on a GPU; skipped if there is none
#   make bench-cuda      tokens per second on a GPU, beside PyTorch

CUDA_FILES := $(wildcard src/kernels/cuda/*.cu)
CUDA_HEADERS := $(wildcard src/kernels/cuda/*.h) src/device/library.h
CUDA_TESTED := wrappers kernels decoder_kernels decoder_products encoder decoder
CUDA_WHOLE := encoder decoder
NVCC := $(or $(shell command -v nvcc),.tools/bin/nvcc)
CUDA_STAMP := $(if $(filter .tools/%,$(NVCC)),.tools/stamp/cuda)
CUDA_ARCHITECTURES := 80 90a 100
CUDA_FLAGS = -O3 -std=c++17 -Isrc -Xcompiler -fPIC,-fvisibility=hidden -Werror all-warnings
CUDA_CODE = $(foreach a,$(CUDA_ARCHITECTURES),-gencode arch=compute_$(a),code=sm_$(a)) \
            -gencode arch=compute_80,code=compute_80

.PHONY: cuda cuda-compile test-cuda test-cuda-shim bench-cuda
cuda: build/libwisp-cuda.so
cuda-compile: build/cuda/ptxas.txt

CUDA_OBJECTS := $(CUDA_FILES:src/kernels/cuda/%.cu=build/cuda/%.o)

# ptxas' report lies beside each object.
build/cuda/%.o: src/kernels/cuda/%.cu $(CUDA_HEADERS) | $(CUDA_STAMP)
	@mkdir -p $(@D)
	$(SAY) NVCC $@
	$(Q)$(NVCC) $(CUDA_FLAGS) $(CUDA_CODE) -Xptxas -v -c $< -o $@ 2> $@.ptxas || (cat $@.ptxas && false)

build/libwisp-cuda.so: $(CUDA_OBJECTS)
	$(SAY) LINK $@
	$(Q)$(NVCC) -shared -cudart static $(addprefix -L,$(wildcard .tools/cuda/lib/python*/site-packages/nvidia/cu13/lib)) $^ -o $@

build/cuda/ptxas.txt: $(CUDA_OBJECTS) tests/cuda/check_ptxas.py
	$(Q)python3 tests/cuda/check_ptxas.py $(CUDA_OBJECTS:%=%.ptxas) > $@ || (tail -1 $@ && false)
	@tail -1 $@

# ---- on the processor -------------------------------------------------------------------------------

SHIM_CXX = g++
SHIM_FLAGS = -std=c++17 -O1 -g -Wall -Wextra -Wno-unknown-pragmas -Isrc -Itests/cuda -fPIC -MMD -MP
SHIM_SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all
SHIM := emulator lanes runtime_emulated warpgroup_emulated
SHIM_LIBRARY := $(CUDA_FILES:src/kernels/cuda/%.cu=build/shim/%.o)
SHIM_TESTS := $(CUDA_TESTED:%=build/shim/test_%) build/shim/test_emulator

build/shim/%.o: src/kernels/cuda/%.cu
	@mkdir -p $(@D)
	$(SAY) CXX $@
	$(Q)$(SHIM_CXX) $(SHIM_FLAGS) $(SHIM_SANITIZE) -x c++ -c $< -o $@
build/shim/%.o: tests/cuda/%.cu
	@mkdir -p $(@D)
	$(SAY) CXX $@
	$(Q)$(SHIM_CXX) $(SHIM_FLAGS) $(SHIM_SANITIZE) -x c++ -c $< -o $@
build/shim/%.o: tests/cuda/%.cc
	@mkdir -p $(@D)
	$(SAY) CXX $@
	$(Q)$(SHIM_CXX) $(SHIM_FLAGS) $(SHIM_SANITIZE) -O2 -c $< -o $@
$(CUDA_WHOLE:%=build/shim/test_%): $(SHIM_LIBRARY)
$(SHIM_TESTS): build/shim/test_%: build/shim/test_%.o $(SHIM:%=build/shim/%.o)
	$(SAY) LINK $@
	$(Q)$(SHIM_CXX) $(SHIM_SANITIZE) $^ -lpthread -o $@

# The device library on the processor, for tests of what opens it.
build/emulated/%.o: src/kernels/cuda/%.cu
	@mkdir -p $(@D)
	$(Q)$(SHIM_CXX) $(SHIM_FLAGS) -O2 -x c++ -c $< -o $@
build/emulated/%.o: tests/cuda/%.cc
	@mkdir -p $(@D)
	$(Q)$(SHIM_CXX) $(SHIM_FLAGS) -O2 -c $< -o $@
build/libwisp-cuda-emulated.so: $(SHIM_LIBRARY:build/shim/%=build/emulated/%) $(SHIM:%=build/emulated/%.o)
	$(SAY) LINK $@
	$(Q)$(SHIM_CXX) -shared $^ -lpthread -o $@
-include $(wildcard build/shim/*.d build/emulated/*.d)

test-cuda-shim: $(SHIM_TESTS:build/shim/%=run/cuda-shim/%) run/cuda-shim/model run/cuda-shim/generator
$(SHIM_TESTS:build/shim/%=run/cuda-shim/%): run/cuda-shim/%: build/shim/%
	$(RUN) cuda-shim/$* -- $<
run/cuda-shim/model: build/wisp build/libwisp-cuda-emulated.so
	$(RUN) cuda-shim/model -- tests/cuda/test_model.py build/wisp build/libwisp-cuda-emulated.so --texts 3
run/cuda-shim/generator: build/wisp build/libwisp-cuda-emulated.so
	$(RUN) cuda-shim/generator -- tests/cuda/test_generator.py build/wisp build/libwisp-cuda-emulated.so models/wisp-stories.gguf
.PHONY: $(SHIM_TESTS:build/shim/%=run/cuda-shim/%) run/cuda-shim/model run/cuda-shim/generator

# ---- on a GPU ---------------------------------------------------------------------------------------

# Machines with a GPU have one architecture; the library has them all.
build/cuda/test_%.o: tests/cuda/test_%.cu $(CUDA_HEADERS) tests/cuda/testing.h | $(CUDA_STAMP)
	@mkdir -p $(@D)
	$(SAY) NVCC $@
	$(Q)$(NVCC) $(CUDA_FLAGS) -Itests/cuda $(CUDA_CODE) -c $< -o $@
build/cuda/lanes.o: tests/cuda/lanes.cc
	@mkdir -p $(@D)
	$(Q)$(SHIM_CXX) -O2 -Itests/cuda -c $< -o $@
CUDA_BENCHES := bench_device bench_decoder bench_kernels
build/cuda/bench_%.o: bench/cuda/bench_%.cu $(CUDA_HEADERS) | $(CUDA_STAMP)
	@mkdir -p $(@D)
	$(SAY) NVCC $@
	$(Q)$(NVCC) $(CUDA_FLAGS) $(CUDA_CODE) -c $< -o $@
$(CUDA_BENCHES:%=build/cuda/%): build/cuda/%: build/cuda/%.o $(CUDA_OBJECTS)
$(CUDA_WHOLE:%=build/cuda/test_%): $(CUDA_OBJECTS)
$(CUDA_TESTED:%=build/cuda/test_%): build/cuda/test_%: build/cuda/test_%.o build/cuda/lanes.o
$(CUDA_BENCHES:%=build/cuda/%) $(CUDA_TESTED:%=build/cuda/test_%):
	$(SAY) LINK $@
	$(Q)$(NVCC) -cudart static $(addprefix -L,$(wildcard .tools/cuda/lib/python*/site-packages/nvidia/cu13/lib)) $^ -o $@

HAS_GPU = $(shell nvidia-smi -L > /dev/null 2>&1 && echo yes)
ifeq ($(HAS_GPU),yes)
test-cuda: $(CUDA_TESTED:%=build/cuda/test_%) build/wisp build/libwisp-cuda.so
	$(Q)for test in $(CUDA_TESTED); do build/cuda/test_$$test || exit 1; done
	$(Q)tests/cuda/test_model.py build/wisp build/libwisp-cuda.so
	$(Q)tests/cuda/test_generator.py build/wisp build/libwisp-cuda.so models/wisp-stories.gguf
bench-cuda: $(CUDA_BENCHES:%=build/cuda/%) build/wisp build/libwisp-cuda.so
	$(Q)for bench in $(CUDA_BENCHES); do build/cuda/$$bench || exit 1; done
	$(Q)python3 bench/cuda/torch_encoder.py
else
test-cuda bench-cuda:
	@echo 'skipped: $@: no GPU (nvidia-smi finds none)'
endif
