# SPDX-License-Identifier: Apache-2.0

# Install rules: `find_package(refx)` gives refx::refx, `pkg-config refx` the flags of both libraries.

include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/refx)

install(TARGETS refx EXPORT refxTargets)
set_target_properties(refx PROPERTIES INSTALL_RPATH "$ORIGIN/refx;${LibTorch_HOME}/lib")
refx_install_file_libraries(DESTINATION ${CMAKE_INSTALL_LIBDIR}/refx)
install(EXPORT refxTargets NAMESPACE refx:: DESTINATION ${config_dir})
install(
  DIRECTORY include/refx
  DESTINATION include
  FILES_MATCHING PATTERN *.h PATTERN *.def)

configure_package_config_file(cmake/refxConfig.cmake.in refxConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(refxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/refxConfig.cmake ${PROJECT_BINARY_DIR}/refxConfigVersion.cmake
              cmake/FindLibTorch.cmake DESTINATION ${config_dir})

# Wherever the prefix comes to lie; torch stays where it was.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig OUTPUT_VARIABLE up)
string(REPLACE " " "\\ " torch "${LibTorch_HOME}")
configure_file(cmake/refx.pc.in refx.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/refx.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
