# Short names for what CMake does; presets in CMakePresets.json have the rest.

BUILD := build/release

help:
	@echo 'make build   build the library, the command and the examples into $(BUILD)'
	@echo 'make demo    build, then run the demonstration'
	@echo 'make test    build that and the tests, then run them'
	@echo 'make bench   time lathe beside other libraries that are there, and print the ratios; ARGS go to bench/vs/compare'
	@echo 'Each first installs the Debian packages that are missing (as root or with sudo).'

build:
	@tools/setup
	@cmake --preset release >/dev/null
	@cmake --build $(BUILD) --target product

demo: build
	@$(BUILD)/tools/lathe demo

test: build
	@cmake --build $(BUILD)
	@tools/run_tests $(BUILD) -LE slow

bench: build
	@cmake --build $(BUILD) --target lathe_bench
	@bench/vs/compare $(ARGS)

.PHONY: help build demo test bench
