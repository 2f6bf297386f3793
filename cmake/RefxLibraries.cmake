# What reads and writes files: simdjson, xxHash, libdeflate (CRC-32).

add_library(refx_file_libraries INTERFACE)
foreach(name simdjson xxhash deflate)
  find_library(REFX_LIB_${name} ${name})
  if(NOT REFX_LIB_${name})
    message(FATAL_ERROR "lib${name} not found; `make setup` installs it")
  endif()
  mark_as_advanced(REFX_LIB_${name})
  target_link_libraries(refx_file_libraries INTERFACE $<BUILD_INTERFACE:${REFX_LIB_${name}}>)
endforeach()
