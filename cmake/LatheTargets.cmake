# Targets of the tree. Sources are globbed, so that a new file needs no edit here.

include(CMakePackageConfigHelpers)

# lathe_library(folder DEPS folders… LINK libraries… BUILD targets…): the static library of src/<folder>, or an interface
# library as long as the folder has no sources.
function(lathe_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;LINK;BUILD" ${ARGN})
  set(target lathe_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  list(TRANSFORM ARG_DEPS PREPEND lathe_)
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    foreach(item lathe_flags ${ARG_BUILD})
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${item}>)
    endforeach()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(${target} ${scope} ${ARG_DEPS} ${ARG_LINK})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(
    ${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/lathe>)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  add_library(lathe::${name} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY LATHE_LIBRARIES ${target})
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/src/${name}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/${name}" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lathe
            FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
  endif()
endfunction()

# lathe_text(folder name VARIABLE file): src/<folder>/<name>.cpp.in with the text of the file for @VARIABLE@ becomes a source of
# the folder's library.
function(lathe_text folder name variable file)
  file(READ "${PROJECT_SOURCE_DIR}/${file}" ${variable})
  configure_file("${PROJECT_SOURCE_DIR}/src/${folder}/${name}.cpp.in" "${PROJECT_BINARY_DIR}/${folder}/${name}.cpp" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${file}")
  target_sources(lathe_${folder} PRIVATE "${PROJECT_BINARY_DIR}/${folder}/${name}.cpp")
endfunction()

# lathe::lathe is everything; with it go the installation and the package that find_package(lathe) reads.
function(lathe_umbrella)
  get_property(libraries GLOBAL PROPERTY LATHE_LIBRARIES)
  add_library(lathe_all INTERFACE)
  target_link_libraries(lathe_all INTERFACE ${libraries})
  set_target_properties(lathe_all PROPERTIES EXPORT_NAME lathe)
  add_library(lathe::lathe ALIAS lathe_all)

  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lathe)
  install(TARGETS lathe_all ${libraries} EXPORT lathe ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES "${PROJECT_SOURCE_DIR}/include/lathe/lathe.h" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lathe)
  install(EXPORT lathe NAMESPACE lathe:: FILE lathe-targets.cmake DESTINATION ${package_dir})
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/lathe-config.cmake.in"
                                "${PROJECT_BINARY_DIR}/lathe-config.cmake" INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/lathe-config-version.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/lathe-config.cmake" "${PROJECT_BINARY_DIR}/lathe-config-version.cmake"
          DESTINATION ${package_dir})
endfunction()

# The command, from tools/lathe.
function(lathe_tool)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/lathe/*.cpp")
  if(NOT sources)
    return()
  endif()
  lathe_headers(cli11 CLI/CLI.hpp)
  add_executable(lathe_tool ${sources})
  target_include_directories(lathe_tool PRIVATE "${PROJECT_SOURCE_DIR}/tools")
  target_link_libraries(lathe_tool PRIVATE lathe::lathe lathe_flags lathe_cli11 lathe_json)
  target_compile_definitions(lathe_tool PRIVATE LATHE_VERSION="${PROJECT_VERSION}")
  set_target_properties(lathe_tool PROPERTIES OUTPUT_NAME lathe
                                              RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tools")
  add_dependencies(product lathe_tool)
  install(TARGETS lathe_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# Each examples/*.cpp is a program; a line "// ctest: arguments" at its head makes it a test as well, and with a line
# "// prints: text" the test must print that text.
function(lathe_examples)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cpp")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(example_${name} ${source})
    target_link_libraries(example_${name} PRIVATE lathe::lathe lathe_flags)
    add_dependencies(product example_${name})
    set_target_properties(example_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} head LIMIT_COUNT 10 REGEX "^// ctest:")
    if(LATHE_TESTS AND head)
      list(GET head 0 line)
      string(REGEX REPLACE "^// ctest:" "" line "${line}")
      separate_arguments(arguments UNIX_COMMAND "${line}")
      add_test(NAME examples/${name} COMMAND example_${name} ${arguments})
      lathe_test_properties(examples/${name} examples)
      file(STRINGS ${source} printed LIMIT_COUNT 10 REGEX "^// prints: ")
      if(printed)
        string(REGEX REPLACE "^// prints: " "" printed "${printed}")
        string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" printed "${printed}")
        set_tests_properties(examples/${name} PROPERTIES PASS_REGULAR_EXPRESSION "${printed}")
      endif()
    endif()
  endforeach()
endfunction()

# Each bench/*.cpp is a Google Benchmark program; built by name, or with everything when LATHE_BENCH is on.
function(lathe_benchmarks)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
  if(NOT sources OR NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    if(LATHE_BENCH)
      message(FATAL_ERROR "Google Benchmark is missing (libbenchmark-dev)")
    endif()
    return()
  endif()
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(bench_${name} ${source})
    target_link_libraries(bench_${name} PRIVATE lathe::lathe lathe_flags benchmark::benchmark_main)
    set_target_properties(bench_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
    if(NOT LATHE_BENCH)
      set_target_properties(bench_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endforeach()
  # The rewrite driver in the program takes the place of the library's; for bench/trace_overhead.
  add_executable(bench_rewrite_untraced EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/bench/rewrite.cpp"
                                                         "${PROJECT_SOURCE_DIR}/src/uop/rewrite.cpp")
  target_link_libraries(bench_rewrite_untraced PRIVATE lathe::lathe lathe_flags benchmark::benchmark_main)
  target_compile_definitions(bench_rewrite_untraced PRIVATE LATHE_TRACE_HOOK=0)
  set_target_properties(bench_rewrite_untraced PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endfunction()

include(LatheTests)
