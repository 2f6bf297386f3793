# SPDX-License-Identifier: Apache-2.0

# What `refx explain` says, as strings in the library: refx_explained is its source. The contracts of the
# transformations are the comments that their files open with.

set(refx_explained ${PROJECT_BINARY_DIR}/explained.cpp)
set(contracts "")
file(GLOB transformation_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/transforms/*.cpp)
foreach(transformation_file ${transformation_files})
  file(READ ${transformation_file} text)
  string(REGEX REPLACE "^// SPDX[^\n]*\n+" "" text "${text}")
  if(NOT text MATCHES "^(// [^\n]*\n(//[^\n]*\n)*)")
    continue()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${transformation_file})
  string(REGEX REPLACE "(^|\n)// ?" "\\1" contract "${CMAKE_MATCH_1}")
  cmake_path(GET transformation_file STEM name)
  string(REPLACE "_" "-" name ${name})
  string(APPEND contracts "      {\"${name}\", R\"refx(${contract})refx\"},\n")
endforeach()
file(
  CONFIGURE OUTPUT ${refx_explained}
  CONTENT "#include \"transforms/explained.h\"\n\nnamespace refx {\n\nconst std::map<std::string_view, std::string_view>& contracts() {\n  static const std::map<std::string_view, std::string_view> all = {\n@contracts@  };\n  return all;\n}\n\n}  // namespace refx\n"
  @ONLY)
