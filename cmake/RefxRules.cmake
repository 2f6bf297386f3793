# SPDX-License-Identifier: Apache-2.0

# The rules that ship with refx, rules/*.refx, as strings in the library: refx_rules is its source.

file(GLOB rule_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/rules/*.refx)
set(refx_rules ${PROJECT_BINARY_DIR}/shipped_rules.cpp)
set(texts "")
foreach(rule_file ${rule_files})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rule_file})
  file(READ ${rule_file} text)
  string(APPEND texts "    R\"refx(${text})refx\",\n")
endforeach()
file(
  CONFIGURE OUTPUT ${refx_rules}
  CONTENT "#include \"rules/shipped.h\"\n\nnamespace refx::rules {\n\nconst std::vector<std::string_view>& shipped_texts() {\n  static const std::vector<std::string_view> texts = {\n@texts@  };\n  return texts;\n}\n\n}  // namespace refx::rules\n"
  @ONLY)
