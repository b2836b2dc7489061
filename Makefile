# Short names for what CMake does; presets in CMakePresets.json have the rest.

BUILD := build/release

help:
	@echo 'make build   build everything into $(BUILD)'
	@echo 'make demo    build, then run the demonstration'
	@echo 'make test    build, then run the tests'
	@echo 'Each first installs the Debian packages that are missing (as root or with sudo).'

build:
	@tools/setup
	@cmake --preset release >/dev/null
	@cmake --build $(BUILD)

demo: build
	@$(BUILD)/tools/lathe demo

test: build
	@tools/run_tests $(BUILD) -LE slow

.PHONY: help build demo test
