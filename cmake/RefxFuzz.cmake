# SPDX-License-Identifier: Apache-2.0

# fuzz/: with clang, libFuzzer's search for bytes that break refx (preset "fuzz"; `make fuzz`); with
# any compiler, a program that tries again what was found before.

file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/*.cpp)
list(FILTER fuzz_sources EXCLUDE REGEX "/fuzz/(engine|replay)\\.cpp$")
list(APPEND fuzz_sources tests/archive/files.cpp tests/json_tree.cpp tests/mutate_json.cpp python/engine/saved.cpp)
find_library(REFX_LIB_zip zip) # how others read an archive
mark_as_advanced(REFX_LIB_zip)
if(NOT REFX_LIB_zip)
  return()
endif()

if(REFX_FUZZ)
  refx_executable(refx_fuzz refx_objects ${fuzz_sources} fuzz/engine.cpp)
  target_link_options(refx_fuzz PRIVATE -fsanitize=fuzzer)
else()
  refx_executable(refx_fuzz refx_objects ${fuzz_sources} fuzz/replay.cpp)
endif()
target_include_directories(refx_fuzz PRIVATE fuzz tests python)
target_link_libraries(refx_fuzz PRIVATE refx_file_libraries ${REFX_LIB_zip})

# Operators of torch, called with hostile arguments in memory between protected pages.
file(GLOB aten_sources CONFIGURE_DEPENDS fuzz/aten/*.cpp)
refx_executable(refx_fuzz_aten refx_objects ${aten_sources})

if(BUILD_TESTING AND REFX_PYTHON AND NOT REFX_FUZZ)
  set(seeds ${PROJECT_BINARY_DIR}/fuzz_seeds)
  file(GLOB seed_models CONFIGURE_DEPENDS tests/data/pt2/*.pt2)
  add_test(NAME fuzz_seeds COMMAND ${REFX_PYTHON} fuzz/make_seeds.py ${seeds} ${seed_models}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME fuzz_replay COMMAND refx_fuzz fuzz/found ${seeds}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(
    fuzz_seeds PROPERTIES FIXTURES_SETUP fuzz_seeds ENVIRONMENT PYTHONPATH=${PROJECT_BINARY_DIR}/python)
  set_tests_properties(
    fuzz_replay PROPERTIES FIXTURES_REQUIRED fuzz_seeds ENVIRONMENT
    "OMP_NUM_THREADS=1;REFX_READ_JSON=${PROJECT_SOURCE_DIR}/fuzz/read_json.py")
  # Some calls of every operator; `make fuzz-operators` makes 10,000 of each.
  add_test(NAME fuzz_operators COMMAND refx_fuzz_aten fuzz/aten/seeds.txt --calls 6
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(fuzz_operators PROPERTIES ENVIRONMENT OMP_NUM_THREADS=1)
  # A minute of searching, where clang is there; it builds all of refx once more, so with one build
  # of the tests is enough.
  set(searches OFF)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/clang.sh RESULT_VARIABLE no_clang OUTPUT_QUIET)
  if(no_clang EQUAL 0 AND CMAKE_BUILD_TYPE STREQUAL Release)
    set(searches ON)
  endif()
  option(REFX_FUZZ_TEST "Let the tests search with libFuzzer for a minute" ${searches})
  if(REFX_FUZZ_TEST)
    add_test(NAME fuzz COMMAND make fuzz FUZZ_S=8 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(fuzz PROPERTIES PROCESSORS 2 TIMEOUT 5400 RUN_SERIAL ON)
  endif()
endif()
