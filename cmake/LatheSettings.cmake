# Language, warnings, sanitizers, ccache and the packages from outside.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# No NDEBUG: invariants are checked in every build.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")

find_program(LATHE_CCACHE ccache)
if(LATHE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${LATHE_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${LATHE_CCACHE}")
endif()

# What every target of ours is compiled with; never exported.
add_library(lathe_flags INTERFACE)
target_compile_options(lathe_flags INTERFACE -Wall -Wextra "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
if(LATHE_WERROR)
  target_compile_options(lathe_flags INTERFACE -Werror)
endif()
if(LATHE_SANITIZE)
  target_compile_options(lathe_flags INTERFACE -fsanitize=${LATHE_SANITIZE} -fno-omit-frame-pointer
                                               -fno-sanitize-recover=all)
  target_link_options(lathe_flags INTERFACE -fsanitize=${LATHE_SANITIZE})
  # With the checks in between, g++ 12 no longer sees that a std::variant is set before it is moved.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(lathe_flags INTERFACE -Wno-maybe-uninitialized)
    # Nor does the thread sanitizer see fences, which only make it miss an order that there is.
    if(LATHE_SANITIZE MATCHES "thread")
      target_compile_options(lathe_flags INTERFACE -Wno-tsan)
    endif()
  endif()
endif()

# A library that no symbol is taken from is not loaded at start either.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_link_options(lathe_flags INTERFACE -Wl,--as-needed)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

# The headers of the standard library and fmt are compiled once: a third off the time of a build from nothing. Not with
# ccache, which would have to tell them apart, nor with clang, which is there to find a header that is missing.
set(LATHE_PCH_DEFAULT ON)
if(LATHE_CCACHE OR CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(LATHE_PCH_DEFAULT OFF)
endif()
option(LATHE_PCH "Precompile the headers of the standard library and fmt" ${LATHE_PCH_DEFAULT})
if(LATHE_PCH)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "")
  add_library(lathe_precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
  target_link_libraries(lathe_precompiled PRIVATE lathe_flags fmt::fmt)
  target_precompile_headers(
    lathe_precompiled PRIVATE <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <functional> <map> <memory> <mutex>
    <optional> <set> <span> <string> <string_view> <unordered_map> <unordered_set> <variant> <vector> <fmt/format.h>)
  # Of one kind for libraries and programs, so that they share the file.
  target_compile_options(lathe_flags INTERFACE -fPIC)
endif()
function(lathe_precompile target)
  if(LATHE_PCH)
    target_precompile_headers(${target} REUSE_FROM lathe_precompiled)
  endif()
endfunction()
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)

# Headers of a package that has no CMake package: an interface target `lathe_<name>` for use inside the build only.
# They are system headers, so their warnings are not ours.
function(lathe_headers name header)
  cmake_parse_arguments(ARG "" "" "HINTS" ${ARGN})
  find_path(LATHE_${name}_INCLUDE ${header} HINTS ${ARG_HINTS})
  if(NOT LATHE_${name}_INCLUDE)
    message(FATAL_ERROR "<${header}> is missing; tools/setup installs what the build needs")
  endif()
  add_library(lathe_${name} INTERFACE)
  if(NOT LATHE_${name}_INCLUDE STREQUAL "/usr/include")
    target_include_directories(lathe_${name} SYSTEM INTERFACE ${LATHE_${name}_INCLUDE})
  endif()
endfunction()

lathe_headers(xxhash xxhash.h)
lathe_headers(httplib httplib.h)
lathe_headers(json nlohmann/json.hpp)
lathe_headers(pcre2 pcre2.h)
lathe_headers(utf8proc utf8proc.h)
lathe_headers(llvm llvm-c/Core.h HINTS /usr/lib/llvm-19/include)
