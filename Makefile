JOBS ?= $(shell nproc)

INTO_VENV = .venv/bin/python scripts/link_package.py

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## */\1\t/p' Makefile | expand -t 12

setup:  ## install what is missing: Debian packages, .venv with torch
	@scripts/setup.sh

build: build/build.ninja  ## build the library, the program, the Python package (into .venv) and the tests
	@[ -x build/bin/refx_tests ] || echo "make: building library, program, package and tests: a quarter of an hour on two cores, this once"
	@cmake --build --preset release -j $(JOBS)
	@$(INTO_VENV)

check: build/build.ninja  ## after each change: format, build, quick lint, fast tests; under two minutes
	@scripts/lint.sh --fix
	@cmake --build --preset release --target refx_cli refx_tests refx_python -j $(JOBS)
	@$(INTO_VENV)
	@scripts/lint.sh license words python
	@ctest --preset release -L fast -j $(JOBS)

test: build  ## build, then run all tests
	@ctest --preset release -j $(JOBS)

program:  ## build the library and the program only, build/bin/refx; installs only what they need
	@[ -x build/bin/refx ] || echo "make: needs a compiler, CMake, four small libraries and torch (in .venv), and installs what is missing; then builds the program: seven minutes on two cores, this once"
	@scripts/setup.sh --program
	@[ build/build.ninja -nt CMakePresets.json ] || { cmake --preset release && touch build/build.ninja; }
	@cmake --build --preset release --target refx_cli generated-docs -j $(JOBS)

demo: program  ## build the program, then show it at work
	@build/bin/refx demo
	@printf '\nmake: the program is build/bin/refx; next: build/bin/refx --help\n'

python: program  ## build the Python package (into .venv) and the program, no tests
	@cmake --build --preset release --target refx_python -j $(JOBS)
	@$(INTO_VENV)

goldens: python  ## write what repeats the built program: tests/goldens/, generated pages, Python stubs
	@.venv/bin/python scripts/goldens.py build/bin/refx
	@.venv/bin/python python/stubs.py

images: program  ## make the images of README.md, docs/images/; needs Chromium
	@.venv/bin/python scripts/images.py

wheel: build/build.ninja  ## build a wheel for the torch in .venv, into dist/
	@CXX=$$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' build/CMakeCache.txt) \
	  .venv/bin/python -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w dist \
	  -C cmake.define.REFX_WERROR=ON . # compiled as `make build` does, so that ccache has it
	@ls dist/*.whl

bench: build  ## build and run the benchmarks
	@for b in $$(ls build/bin/bench_* 2>/dev/null); do echo "== $$b"; $$b || exit 1; done

asan: build-asan/build.ninja  ## run all tests under AddressSanitizer and UBSan
	@cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan -j $(JOBS)

tsan: build-tsan/build.ninja  ## run the unit tests under ThreadSanitizer
	@cmake --build --preset tsan -j $(JOBS)
	@ctest --preset tsan -j $(JOBS)

fuzz: build-fuzz/build.ninja  ## search for bytes that break refx, FUZZ_S seconds (60) for each target
	@cmake --build --preset fuzz -j $(JOBS)
	@scripts/fuzz.sh $(ONLY)

.PHONY: fuzz-operators
fuzz-operators: build  ## call the operators that models may call with hostile arguments, FUZZ_CALLS (10000) of each
	@OMP_NUM_THREADS=1 build/bin/refx_fuzz_aten fuzz/aten/seeds.txt --calls $(or $(FUZZ_CALLS),10000) | tee build/operators.txt
	@.venv/bin/python fuzz/aten/write_docs.py build/operators.txt docs/operators.md

torture: build  ## random runs with faults injected, TORTURE_S seconds (60) for each kind
	@ONLY="$(ONLY)" scripts/torture.sh

setup-clang:
	@scripts/clang.sh >/dev/null || scripts/setup.sh clang-16 libclang-rt-16-dev

reference: setup  ## write the reference pages of the C++ library, build/reference/
	@scripts/reference.sh

debug: build-debug/build.ninja  ## debug build, in build-debug/
	@cmake --build --preset debug -j $(JOBS)

lint: build/build.ninja  ## check formats, words, clang-tidy, ruff, eslint and commit subjects; ONLY="python web" for some
	@ninja --quiet -C build build.ninja # compile commands and packages of web/ as they are now
	@scripts/lint.sh $(ONLY)

format: setup  ## clang-format our sources, ruff's safe fixes
	@scripts/lint.sh --fix

clean:  ## remove the build folders (keeps .venv)
	rm -rf build build-debug build-asan build-tsan build-fuzz build-wheel

# Ninja reconfigures by itself when a CMake file changes; the presets it does not know about.
build/build.ninja: PRESET = release
build-debug/build.ninja: PRESET = debug
build-asan/build.ninja: PRESET = asan
build-tsan/build.ninja: PRESET = tsan
build-fuzz/build.ninja: PRESET = fuzz
build-fuzz/build.ninja: export CXX = $(shell scripts/clang.sh)
build-fuzz/build.ninja: | setup-clang
build/build.ninja build-debug/build.ninja build-asan/build.ninja build-tsan/build.ninja build-fuzz/build.ninja: CMakePresets.json | setup
	@cmake --preset $(PRESET)
	@touch $@

.PHONY: help setup build program check test demo python goldens images wheel bench asan tsan fuzz torture setup-clang reference debug lint format clean
