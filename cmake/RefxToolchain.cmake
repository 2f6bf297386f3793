# SPDX-License-Identifier: Apache-2.0

# How our code is compiled: standard, warnings, compiler cache, linker, output folders.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# What is not marked REFX_API cannot be used from outside.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

add_compile_options(-Wall -Wextra -Wpedantic)
if(REFX_WERROR)
  add_compile_options(-Werror)
endif()

# The operators of tensors without all of torch's functions: 3 s less for a file that uses them.
add_compile_definitions(AT_PER_OPERATOR_HEADERS)
# Of simdjson's forms for several kinds of x86 the one that is inlined: 1 s less for a file that reads JSON.
add_compile_definitions(SIMDJSON_IMPLEMENTATION_ICELAKE=0 SIMDJSON_IMPLEMENTATION_HASWELL=__AVX2__
                        SIMDJSON_IMPLEMENTATION_WESTMERE=__PCLMUL__)

# Executables too, so that they can use the precompiled header of the (shared) library.
add_compile_options(-fPIC)

# __FILE__ and debug info relative to the checkout: same objects wherever it lies.
# (ccache turns names under its BASEDIR into relative ones, hence the second map.)
cmake_path(RELATIVE_PATH PROJECT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_BINARY_DIR} OUTPUT_VARIABLE up)
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${up}/=)

# g++ need not look for memory to free before it has used half a gigabyte: a tenth of its time.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options("SHELL:--param ggc-min-heapsize=500000")
endif()

# ccache, with what it needs to cache around a precompiled header and across checkouts.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_PCH_EXTSUM=true
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${PROJECT_SOURCE_DIR}/cmake/ccache.sh ${CCACHE})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  else()
    add_compile_options(-fpch-preprocess)
  endif()
endif()

find_program(MOLD mold)
if(MOLD)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold REFX_HAVE_MOLD)
  if(REFX_HAVE_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
