# Install rules: `find_package(refx)` gives refx::refx.

include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/refx)

install(TARGETS refx EXPORT refxTargets)
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
