# SPDX-License-Identifier: Apache-2.0

# What reads and writes files: simdjson, xxHash, libdeflate (CRC-32).

option(REFX_BUNDLE "Install these libraries beside librefx, which then needs LibTorch alone" ON)

add_library(refx_file_libraries INTERFACE)
set(refx_file_libraries simdjson xxhash deflate)
foreach(name IN LISTS refx_file_libraries)
  find_library(REFX_LIB_${name} ${name})
  if(NOT REFX_LIB_${name})
    message(FATAL_ERROR "lib${name} not found; `make setup` installs it")
  endif()
  mark_as_advanced(REFX_LIB_${name})
  target_link_libraries(refx_file_libraries INTERFACE $<BUILD_INTERFACE:${REFX_LIB_${name}}>)
endforeach()

# Installs those that are shared libraries, under the names by which the loader looks for them.
function(refx_install_file_libraries) # and the arguments of install(FILES)
  if(NOT REFX_BUNDLE)
    return()
  endif()
  foreach(name IN LISTS refx_file_libraries)
    file(REAL_PATH ${REFX_LIB_${name}} file)
    execute_process(COMMAND ${CMAKE_READELF} -d ${file} OUTPUT_VARIABLE dynamic ERROR_QUIET)
    if(dynamic MATCHES "SONAME[^[]*\\[([^]]+)\\]")
      install(FILES ${file} RENAME ${CMAKE_MATCH_1} ${ARGN})
    endif()
  endforeach()
endfunction()
