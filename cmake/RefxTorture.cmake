# torture/: long random runs with faults injected; `make torture`.

file(GLOB torture_sources CONFIGURE_DEPENDS torture/*.cpp)
if(BUILD_TESTING AND torture_sources AND TARGET refx_tests)
  # With what the tests make models of and judge them by.
  set(helpers kit oracle property random_model random_moves writer archive/files ops/views)
  list(TRANSFORM helpers REPLACE "(.+)" "tests/\\1.cpp")
  refx_executable(refx_torture refx_objects ${torture_sources} ${helpers})
  target_include_directories(refx_torture PRIVATE tests torture)
  target_link_libraries(refx_torture PRIVATE GTest::gtest_main rapidcheck_gtest refx_file_libraries)
  add_test(NAME torture COMMAND refx_torture --gtest_brief=1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(torture PROPERTIES ENVIRONMENT OMP_NUM_THREADS=1)
endif()
