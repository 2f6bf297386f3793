# SPDX-License-Identifier: Apache-2.0

# Finds LibTorch in an installed torch wheel or an unpacked libtorch folder. Defines the targets
# LibTorch::LibTorch and LibTorch::headers, and LibTorch_HOME (the torch folder), LibTorch_VERSION.
#
# Looked for in: LibTorch_ROOT, Torch_DIR, CMAKE_PREFIX_PATH, then the torch that the Python
# interpreter REFX_PYTHON would import (.venv/bin/python if there is one, else python3).
#
# Why not torch's own TorchConfig.cmake: with a CUDA build of torch it demands the CUDA toolkit,
# which linking does not need; it adds flags and libraries (protobuf, kineto) that we do not use;
# and it asks us to import torch to find it (2 s). The folder's layout is stable and simple.

set(_hints ${LibTorch_ROOT} $ENV{LibTorch_ROOT})
if(Torch_DIR)
  list(APPEND _hints ${Torch_DIR}/../../..)
endif()
foreach(_prefix IN LISTS CMAKE_PREFIX_PATH) # either the torch folder or its share/cmake
  list(APPEND _hints ${_prefix} ${_prefix}/../..)
endforeach()
find_path(LibTorch_HOME lib/libtorch_cpu.so PATHS ${_hints} NO_DEFAULT_PATH
          DOC "Folder of torch, with include/ and lib/")

if(NOT LibTorch_HOME)
  find_program(REFX_PYTHON python NAMES python3 PATHS ${PROJECT_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH
               DOC "Python interpreter whose torch is used")
  find_program(REFX_PYTHON NAMES python3 python)
  execute_process(
    COMMAND ${REFX_PYTHON} -c
            "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE _from_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_path(LibTorch_HOME lib/libtorch_cpu.so PATHS ${_from_python} NO_DEFAULT_PATH)
endif()

if(LibTorch_HOME)
  get_filename_component(LibTorch_HOME ${LibTorch_HOME} ABSOLUTE)
  file(STRINGS ${LibTorch_HOME}/include/torch/headeronly/version.h _lines
       REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" _numbers "${_lines}")
  string(REPLACE ";" "." LibTorch_VERSION "${_numbers}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch REQUIRED_VARS LibTorch_HOME VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "give -DREFX_PYTHON=<a python that has torch> or -DLibTorch_ROOT=<folder>")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  set(_lib ${LibTorch_HOME}/lib)
  foreach(_name c10 torch_cpu)
    add_library(LibTorch::${_name} SHARED IMPORTED)
    set_target_properties(LibTorch::${_name} PROPERTIES IMPORTED_LOCATION ${_lib}/lib${_name}.so)
  endforeach()

  add_library(LibTorch::headers INTERFACE IMPORTED)
  target_include_directories(
    LibTorch::headers SYSTEM INTERFACE ${LibTorch_HOME}/include
                                       ${LibTorch_HOME}/include/torch/csrc/api/include)
  target_compile_definitions(LibTorch::headers INTERFACE _GLIBCXX_USE_CXX11_ABI=1)

  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_link_libraries(LibTorch::LibTorch
                        INTERFACE LibTorch::headers LibTorch::torch_cpu LibTorch::c10)
  if(EXISTS ${_lib}/libtorch_cuda.so)
    # Nothing refers to libtorch_cuda; loading it (through libtorch) registers the CUDA kernels.
    # What it needs in turn lies where its own rpath says, which linkers do not follow.
    target_link_libraries(
      LibTorch::LibTorch INTERFACE -Wl,--push-state,--no-as-needed ${_lib}/libtorch.so
                                   -Wl,--pop-state -Wl,--allow-shlib-undefined)
  endif()
endif()
