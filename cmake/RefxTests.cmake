# SPDX-License-Identifier: Apache-2.0

# Tests (GoogleTest, RapidCheck), examples and benchmarks: each where its sources exist.

# ---- tests: one executable, because linking with torch costs 0.4 s at each start --------------

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS tests/*.cpp)
list(FILTER test_sources EXCLUDE REGEX /tests/install_consumer/[^/]*$)
find_package(GTest QUIET)
find_package(rapidcheck QUIET)
find_library(REFX_LIB_zip zip) # a second opinion on malformed archives
mark_as_advanced(REFX_LIB_zip)
if(BUILD_TESTING AND test_sources AND GTest_FOUND AND rapidcheck_FOUND AND REFX_LIB_zip)
  # Half of what all there is takes to compile. What they include is compiled once, and they themselves
  # need not be fast: the library that they link is as it ships.
  set(kit ${test_sources}) # what models are made of and judged by: for torture/, too
  list(FILTER kit INCLUDE REGEX "/tests/(kit|oracle|property|random_model|random_moves|writer|archive/files|ops/views)\\.cpp$")
  list(REMOVE_ITEM test_sources ${kit})
  foreach(source IN LISTS test_sources)
    if(source MATCHES "/tests/(import|ops|rules|transforms)/") # whose files have names of their own for the same things
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  add_library(refx_kit OBJECT ${kit})
  add_executable(refx_tests ${test_sources})
  foreach(part refx_kit refx_tests)
    refx_link(refx_objects ${part} OWN_HEADERS)
    target_include_directories(${part} PUBLIC tests)
    target_compile_options(${part} PRIVATE $<$<CONFIG:Release>:-O1>)
    target_link_libraries(${part} PUBLIC GTest::gtest_main rapidcheck_gtest refx_file_libraries ${REFX_LIB_zip})
    refx_unity(${part})
  endforeach()
  target_link_libraries(refx_tests PRIVATE refx_kit)
  if(REFX_PCH)
    target_precompile_headers(
      refx_kit PRIVATE <ATen/ATen.h> <fmt/format.h> <gtest/gtest.h> <filesystem> <fstream> <random>
      <sstream> <string> <vector> ${PROJECT_SOURCE_DIR}/include/refx/refx.h)
    target_precompile_headers(refx_tests REUSE_FROM refx_kit)
  endif()

  # Models that torch exports, for the tests of the program.
  if(REFX_PYTHON)
    set(models ${PROJECT_BINARY_DIR}/test_models)
    set(models_variable REFX_MODELS=${models})
    set(models_fixture cli_models)
    add_test(NAME cli_models COMMAND ${REFX_PYTHON} ${PROJECT_SOURCE_DIR}/tests/cli/make_models.py
                                     ${models} ${PROJECT_BINARY_DIR}/bin/refx)
    set_tests_properties(cli_models PROPERTIES FIXTURES_SETUP cli_models)
  endif()

  # Suites that take seconds. `make check` runs all others: those labelled fast.
  string(JOIN ":" slow Budget.* Choose.* Completion.* Contest.* CraftedHistory.* Faults.* TorchExport.* Tune.*
         TuneFiles.* VerifyProperty.* */Contract.* */Outliers.* */Property.* */RandomRules.* */Shipped.*)
  set(REFX_TEST_SHARDS 4 CACHE STRING "Processes that share the slow unit tests")
  function(refx_unit_tests kind filter shards)
    math(EXPR last "${shards} - 1")
    foreach(i RANGE ${last})
      add_test(NAME unit_${kind}_${i} COMMAND refx_tests --gtest_brief=1 --gtest_filter=${filter}
               WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(
        unit_${kind}_${i} PROPERTIES LABELS ${kind} TIMEOUT 7200 ENVIRONMENT # sanitizers are slow
        "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${i};OMP_NUM_THREADS=1;REFX_PROGRAM=${PROJECT_BINARY_DIR}/bin/refx;${models_variable}" FIXTURES_REQUIRED "${models_fixture}")
    endforeach()
  endfunction()
  refx_unit_tests(fast "-${slow}" 2)
  refx_unit_tests(slow "${slow}" ${REFX_TEST_SHARDS})
  # A transformation is known to the program and to every test as soon as it is registered.
  if(TARGET refx_cli)
    refx_executable(refx_one_more refx tests/one_more.cpp)
    target_link_libraries(refx_one_more PRIVATE refx_commands)
    add_dependencies(refx_tests refx_one_more)
    add_test(NAME one_more_transformation
             COMMAND refx_tests --gtest_brief=1
                     --gtest_filter=OneMore.*:Program.*:Completion.*:Files.*:*Contract.ApplyRunReverseRedo*
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(
      one_more_transformation PROPERTIES ENVIRONMENT
      "REFX_ONE_MORE=1;OMP_NUM_THREADS=1;REFX_PROGRAM=$<TARGET_FILE:refx_one_more>;${models_variable}"
      FIXTURES_REQUIRED "${models_fixture}")
  endif()
elseif(BUILD_TESTING AND test_sources)
  message(WARNING "GoogleTest, RapidCheck or libzip not found: no unit tests")
endif()

# The page of `refx report` in a browser.
if(BUILD_TESTING AND TARGET refx_tests AND TARGET refx_cli AND REFX_PYTHON AND refx_page_is_built)
  set(pages ${PROJECT_BINARY_DIR}/test_pages)
  add_test(NAME report_pages COMMAND refx_tests --gtest_brief=1 --gtest_filter=ReportPages.*
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(report_pages PROPERTIES ENVIRONMENT REFX_PAGES=${pages} FIXTURES_SETUP pages)
  add_test(NAME report_browser
           COMMAND ${REFX_NODE} ${PROJECT_SOURCE_DIR}/tests/report/browser.mjs ${PROJECT_SOURCE_DIR}/web
                   ${pages} $<TARGET_FILE:refx_cli> ${models})
  set_tests_properties(
    report_browser PROPERTIES ENVIRONMENT OMP_NUM_THREADS=1 PROCESSORS 2 TIMEOUT 1200
    FIXTURES_REQUIRED "pages;cli_models" SKIP_REGULAR_EXPRESSION "SKIP: no")
endif()

# The program against torch: files that Python exports, judges and damages.
set(python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
if(BUILD_TESTING AND TARGET refx_cli AND EXISTS ${python})
  # Entries that run side by side: the models of models/, files that tests export themselves, and quick checks.
  set(made test_changing_files.py test_mutations.py test_roundtrip.py test_terminal.py)
  file(GLOB python_tests RELATIVE ${PROJECT_SOURCE_DIR}/tests/python CONFIGURE_DEPENDS tests/python/test_*.py)
  set(quick test_floors.py test_generated.py test_link_package.py test_reasons.py test_words.py)
  list(REMOVE_ITEM python_tests ${made} ${quick})
  foreach(entry "python ${made}" "python_exports ${python_tests}" "python_quick ${quick}")
    separate_arguments(files UNIX_COMMAND "${entry}")
    list(POP_FRONT files name)
    list(TRANSFORM files PREPEND tests/python/)
    add_test(NAME ${name} COMMAND ${python} -m pytest -q ${files} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(
      ${name} PROPERTIES TIMEOUT 3600 SKIP_REGULAR_EXPRESSION "No module named pytest" ENVIRONMENT
      "OMP_NUM_THREADS=1;PYTHONUTF8=1;REFX_PROGRAM=$<TARGET_FILE:refx_cli>")
  endforeach()
  set_tests_properties(python_quick PROPERTIES LABELS fast)
elseif(BUILD_TESTING)
  message(STATUS "No .venv: `.pt2` files are not tested against Python's torch")
endif()

# The reference pages of the headers.
find_program(REFX_DOXYGEN doxygen)
mark_as_advanced(REFX_DOXYGEN)
if(BUILD_TESTING AND REFX_DOXYGEN)
  add_test(NAME reference COMMAND ${PROJECT_SOURCE_DIR}/scripts/reference.sh)
endif()

# Install into the build tree, then build and run projects that use find_package(refx).
set(stage ${PROJECT_BINARY_DIR}/install_consumer)
function(refx_consumer name source) # and the command to run
  add_test(
    NAME ${name}
    COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test ${PROJECT_SOURCE_DIR}/${source} ${stage}/${name}
            --build-generator ${CMAKE_GENERATOR} --build-noclean
            --build-options
              -DCMAKE_PREFIX_PATH=${stage}/prefix
              -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}
              -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
              -DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}
            --test-command ${ARGN})
  set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED installed)
endfunction()
if(BUILD_TESTING AND EXISTS ${PROJECT_SOURCE_DIR}/include/refx/refx.h)
  add_test(NAME install COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR}
                                --prefix ${stage}/prefix)
  set_tests_properties(install PROPERTIES FIXTURES_SETUP installed)
  refx_consumer(install_consumer tests/install_consumer consumer)
  add_test(NAME installed_files
           COMMAND ${PROJECT_SOURCE_DIR}/tests/install_consumer/installed.sh ${stage}/prefix ${CMAKE_CXX_COMPILER} ${CMAKE_CXX_FLAGS}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(installed_files PROPERTIES FIXTURES_REQUIRED installed)
  if(models_fixture)
    refx_consumer(example_server examples/server server ${models}/small.pt2 0.1 ${stage}/back.pt2)
    set_tests_properties(example_server PROPERTIES FIXTURES_REQUIRED "installed;${models_fixture}")
  endif()
endif()

# ---- examples: built by default, run as tests -------------------------------------------------

file(GLOB example_sources CONFIGURE_DEPENDS examples/*.cpp)
foreach(source IN LISTS example_sources)
  cmake_path(GET source STEM name)
  refx_executable(example_${name} refx ${source})
  add_test(NAME example_${name} COMMAND example_${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endforeach()
if(BUILD_TESTING AND TARGET refx_cli AND REFX_PYTHON AND refx_page_is_built)
  add_test(NAME example_tour COMMAND ${PROJECT_SOURCE_DIR}/examples/tour.sh)
  set_tests_properties(
    example_tour PROPERTIES ENVIRONMENT
    "REFX_PROGRAM=$<TARGET_FILE:refx_cli>;PYTHON=${REFX_PYTHON};OMP_NUM_THREADS=1;PYTHONUTF8=1")
endif()

# ---- benchmarks: built by default, so that they keep up; `make bench` runs them ----------------

file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.cpp)
find_package(benchmark QUIET)
if(benchmark_FOUND)
  foreach(source IN LISTS bench_sources)
    cmake_path(GET source STEM name)
    refx_executable(bench_${name} refx_objects ${source})
    target_link_libraries(bench_${name} PRIVATE benchmark::benchmark_main)
  endforeach()
endif()
