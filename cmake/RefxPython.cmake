# SPDX-License-Identifier: Apache-2.0

# The Python extension refx/_core: torch's own pybind11, torch's Python library.
#
# In the build tree python/refx/ is the whole package, its sources linked. A wheel (scikit-build-core
# sets SKBUILD) contains the package, librefx and the program.

if(NOT Python_EXECUTABLE)
  set(Python_EXECUTABLE ${REFX_PYTHON})
endif()
find_package(Python 3.10 COMPONENTS Interpreter Development.Module)
if(NOT Python_Development.Module_FOUND OR NOT EXISTS ${LibTorch_HOME}/lib/libtorch_python.so)
  message(WARNING "No Python headers, or a torch without Python: the Python package is not built")
  return()
endif()

# The engine under refx.fx: see docs/fx.md.
file(GLOB engine_sources CONFIGURE_DEPENDS python/engine/*.cpp)
add_library(refx_fx_engine STATIC ${engine_sources})
target_include_directories(refx_fx_engine PUBLIC python)
target_include_directories(refx_fx_engine SYSTEM PUBLIC ${Python_INCLUDE_DIRS})
target_link_libraries(
  refx_fx_engine PUBLIC refx refx_util ${LibTorch_HOME}/lib/libtorch_python.so)
target_precompile_headers(refx_fx_engine PRIVATE <torch/csrc/utils/pybind.h>)

file(GLOB python_sources CONFIGURE_DEPENDS python/src/*.cpp)
add_library(refx_python MODULE ${python_sources})
target_include_directories(refx_python PRIVATE python/src)
target_link_libraries(refx_python PRIVATE refx_fx_engine)
target_compile_definitions(
  refx_python PRIVATE REFX_VERSION="${PROJECT_VERSION}" REFX_TORCH_VERSION="${LibTorch_VERSION}")
target_precompile_headers(refx_python PRIVATE <torch/csrc/utils/pybind.h>)
set_target_properties(
  refx_python
  PROPERTIES PREFIX "" OUTPUT_NAME _core SUFFIX .${Python_SOABI}.so
             LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/refx)

# Read before the extension is loaded, which another torch would not let happen.
file(WRITE ${PROJECT_BINARY_DIR}/python/refx/_build.py
     "VERSION = \"${PROJECT_VERSION}\"\nTORCH = \"${LibTorch_VERSION}\"\n")
file(GLOB entries CONFIGURE_DEPENDS python/refx/* ${PROJECT_SOURCE_DIR}/python/refx_program)
list(FILTER entries EXCLUDE REGEX /__pycache__$)
foreach(entry IN LISTS entries)
  cmake_path(RELATIVE_PATH entry BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
  file(CREATE_LINK ${entry} ${PROJECT_BINARY_DIR}/${name} SYMBOLIC)
endforeach()

if(SKBUILD)
  # site-packages/refx/_core.so finds librefx beside it; torch is loaded by then. refx_program passes the
  # location of torch to the program.
  set_target_properties(refx_python refx PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/lib;$ORIGIN/../torch/lib")
  refx_install_file_libraries(DESTINATION refx/lib COMPONENT wheel)
  install(FILES ${PROJECT_BINARY_DIR}/python/refx/_build.py DESTINATION refx COMPONENT wheel)
  install(TARGETS refx_python refx LIBRARY DESTINATION refx COMPONENT wheel NAMELINK_SKIP)
  if(TARGET refx_cli)
    set_target_properties(refx_cli PROPERTIES INSTALL_RPATH "$ORIGIN/..")
    install(TARGETS refx_cli RUNTIME DESTINATION refx/bin COMPONENT wheel)
  endif()
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT SKBUILD)
  set(environment "PYTHONPATH=${PROJECT_BINARY_DIR}/python;REFX_PROGRAM=${PROJECT_BINARY_DIR}/bin/refx;OMP_NUM_THREADS=1;PYTHONUTF8=1")
  function(refx_pytest name) # and the files
    list(TRANSFORM ARGN PREPEND tests/python/)
    add_test(NAME ${name} COMMAND ${Python_EXECUTABLE} -m pytest -q ${ARGN}
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
  endfunction()
  # The files of which `make check` runs the tests: all of them together take some ten seconds.
  file(GLOB fx RELATIVE ${PROJECT_SOURCE_DIR}/tests/python CONFIGURE_DEPENDS tests/python/fx/test_*.py)
  set(fast bisect dead_code marks model others own planned rules seen shared tied unfinished wrong_use)
  list(TRANSFORM fast PREPEND fx/test_)
  list(TRANSFORM fast APPEND .py)
  list(REMOVE_ITEM fx ${fast})
  refx_pytest(python_fx ${fx})
  refx_pytest(python_fx_fast ${fast})
  set_tests_properties(python_fx_fast PROPERTIES LABELS fast)
  # Files whose measurements other tests should not disturb.
  file(GLOB lab RELATIVE ${PROJECT_SOURCE_DIR}/tests/python CONFIGURE_DEPENDS tests/python/lab/test_*.py)
  set(timed lab/test_bench.py lab/test_package.py lab/test_tune.py)
  list(REMOVE_ITEM lab ${timed})
  refx_pytest(python_lab ${lab})
  refx_pytest(python_timed ${timed})
  set_tests_properties(python_timed PROPERTIES PROCESSORS 2)
  # The wheel, built as `make build` builds, and installed as people do.
  add_test(NAME wheel COMMAND sh -ec "make -s wheel; exec tests/wheel.sh dist/refx-${PROJECT_VERSION}-*.whl \"$1\" build-wheel/installed"
                              sh ${Python_EXECUTABLE}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(wheel PROPERTIES PROCESSORS 2 TIMEOUT 3600 ENVIRONMENT OMP_NUM_THREADS=1)
  # The examples, one after the other: most of their time is the import of torch.
  file(GLOB example_scripts CONFIGURE_DEPENDS examples/*.py)
  list(FILTER example_scripts EXCLUDE REGEX /model.py$) # which the others import
  add_test(NAME python_examples
           COMMAND sh -ec "python=$1; shift; for example; do \"$python\" \"$example\"; done" sh
                   ${Python_EXECUTABLE} ${example_scripts}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(python_examples PROPERTIES ENVIRONMENT "${environment}")
  if(refx_page_is_built)
    add_test(NAME python_notebook
             COMMAND ${Python_EXECUTABLE} tests/python/run_notebook.py examples/notebook.ipynb
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(python_notebook PROPERTIES ENVIRONMENT "${environment}")
  endif()
endif()
