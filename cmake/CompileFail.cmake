# cmake -DCOMPILER= -DSOURCE= -DINCLUDE= -P CompileFail.cmake
# The source must not compile, the compiler must print every text that a line "// EXPECT: text" names, and with CONTROL
# defined the same file must compile: what fails is the marked line, not the file.

function(compile result output)
  execute_process(
    COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -Werror -fsyntax-only -fdiagnostics-color=never -I${INCLUDE} ${ARGN}
            ${SOURCE}
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  set(${result} ${code} PARENT_SCOPE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

file(STRINGS ${SOURCE} expectations REGEX "// EXPECT: ")
if(NOT expectations)
  message(FATAL_ERROR "${SOURCE}: no line \"// EXPECT: text\"")
endif()

compile(code text -DCONTROL)
if(NOT code EQUAL 0)
  message("${text}")
  message(FATAL_ERROR "${SOURCE}: must compile with CONTROL defined")
endif()

compile(code text)
if(code EQUAL 0)
  message(FATAL_ERROR "${SOURCE}: compiles, but must not")
endif()
foreach(expectation ${expectations})
  string(REGEX REPLACE "^.*// EXPECT: " "" expectation "${expectation}")
  string(FIND "${text}" "${expectation}" position)
  if(position EQUAL -1)
    message("${text}")
    message(FATAL_ERROR "${SOURCE}: the compiler does not say \"${expectation}\"")
  endif()
endforeach()
