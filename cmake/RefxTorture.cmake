# SPDX-License-Identifier: Apache-2.0

# torture/: long random runs with faults injected; `make torture`.

file(GLOB torture_sources CONFIGURE_DEPENDS torture/*.cpp)
if(BUILD_TESTING AND torture_sources AND TARGET refx_tests)
  refx_executable(refx_torture refx_objects ${torture_sources})
  target_include_directories(refx_torture PRIVATE torture)
  target_link_libraries(refx_torture PRIVATE refx_kit)
  add_test(NAME torture COMMAND refx_torture --gtest_brief=1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(torture PROPERTIES ENVIRONMENT OMP_NUM_THREADS=1)
endif()
