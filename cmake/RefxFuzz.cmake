# fuzz/: with clang, libFuzzer's search for bytes that break refx (preset "fuzz"; `make fuzz`); with
# any compiler, a program that tries again what was found before.

file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/*.cpp)
find_library(REFX_LIB_zip zip) # how others read an archive
mark_as_advanced(REFX_LIB_zip)
if(NOT REFX_LIB_zip)
  return()
endif()
list(APPEND fuzz_sources tests/json_tree.cpp tests/mutate_json.cpp)
list(FILTER fuzz_sources EXCLUDE REGEX "/fuzz/(engine|replay)\\.cpp$")
if(REFX_FUZZ)
  refx_executable(refx_fuzz refx_objects ${fuzz_sources} fuzz/engine.cpp)
  target_link_options(refx_fuzz PRIVATE -fsanitize=fuzzer)
else()
  refx_executable(refx_fuzz refx_objects ${fuzz_sources} fuzz/replay.cpp)
  if(BUILD_TESTING)
    add_test(NAME fuzz_replay COMMAND refx_fuzz fuzz/found fuzz/seeds
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endif()
endif()
target_include_directories(refx_fuzz PRIVATE fuzz tests)
target_link_libraries(refx_fuzz PRIVATE refx_file_libraries ${REFX_LIB_zip})
