# SPDX-License-Identifier: Apache-2.0

# The page of `refx report`: web/, bundled into one file and compiled into the library. Node.js is
# needed here only; without it the library works, and report() says what is missing.

set(refx_page ${PROJECT_SOURCE_DIR}/cmake/no_page.cpp)
set(refx_page_is_built OFF)
if(NOT REFX_PAGE)
  return()
endif()

set(web ${PROJECT_SOURCE_DIR}/web)
set(modules ${web}/node_modules)
find_program(REFX_NODE NAMES node nodejs)
find_program(REFX_NPM npm)
mark_as_advanced(REFX_NODE REFX_NPM)
if(NOT REFX_NODE OR NOT REFX_NPM)
  message(WARNING "node or npm not found: built without the page of `refx report`")
  return()
endif()

# A copy of the lock file that was installed from says whether that is still what is wanted.
set(lock ${web}/package-lock.json)
set(stamp ${modules}/.refx-lock)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${lock})
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${lock} ${stamp}
                RESULT_VARIABLE outdated OUTPUT_QUIET ERROR_QUIET)
if(outdated)
  message(STATUS "Installing the packages of web/")
  execute_process(COMMAND ${REFX_NPM} ci --ignore-scripts --no-audit --no-fund --loglevel=error
                  WORKING_DIRECTORY ${web} RESULT_VARIABLE failed)
  if(failed)
    message(WARNING "npm ci failed in web/: built without the page of `refx report`")
    return()
  endif()
  file(COPY_FILE ${lock} ${stamp})
endif()

file(GLOB_RECURSE page_sources CONFIGURE_DEPENDS ${web}/src/*)
set(refx_page ${PROJECT_BINARY_DIR}/web/page.cpp)
set(refx_page_is_built ON)
add_custom_command(
  OUTPUT ${refx_page} DEPENDS ${web}/build.mjs ${lock} ${page_sources} VERBATIM
  COMMENT "Bundling the report page"
  COMMAND ${REFX_NODE} ${web}/build.mjs ${refx_page})
