# A room is one folder of src/ and one static library. Its include path is a generated folder of links that holds only
# the rooms of a lower level and itself, so an include against the dependency rule does not compile.
set(RAVINE_ROOMS base config device dialects kernels files comm engine text model optim parallel io data plan train infer eval probe serve apps)
set(RAVINE_LEVELS 0   1      1      2        2       2     2    3      3    4     5     5        5  5    6    6     6     7    7     7     8)

function(ravine_level room out)
  list(FIND RAVINE_ROOMS ${room} i)
  if(i EQUAL -1)
    message(FATAL_ERROR "unknown room '${room}': add it to cmake/rooms.cmake with its level")
  endif()
  list(GET RAVINE_LEVELS ${i} level)
  set(${out} ${level} PARENT_SCOPE)
endfunction()

# ravine_include_folder(room out): the folder of links that the room may include from.
function(ravine_include_folder room out)
  set(folder ${CMAKE_BINARY_DIR}/include/${room})
  file(MAKE_DIRECTORY ${folder})
  ravine_level(${room} mine)
  foreach(other IN LISTS RAVINE_ROOMS)
    ravine_level(${other} level)
    if((level LESS mine OR other STREQUAL room) AND IS_DIRECTORY ${CMAKE_SOURCE_DIR}/src/${other})
      file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${other} ${folder}/${other} SYMBOLIC)
    endif()
  endforeach()
  set(${out} ${folder} PARENT_SCOPE)
endfunction()

# ravine_precompile(target BY name LIBRARIES ... HEADERS ...): what most files read of headers from outside, compiled once by the target
# `name` for all that name it. A file still includes all that it uses: the fuzz preset builds without.
option(RAVINE_PRECOMPILE "compile headers of libraries once for all files" ON)
set(RAVINE_OUTSIDE_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory> <optional> <span> <string> <string_view>
    <utility> <vector> <fmt/format.h> <nlohmann/json.hpp>)
function(ravine_precompile target)
  cmake_parse_arguments(P "" "BY" "LIBRARIES;HEADERS" ${ARGN})
  if(NOT RAVINE_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET ${P_BY})
    file(WRITE ${CMAKE_BINARY_DIR}/${P_BY}.cpp "")
    add_library(${P_BY} OBJECT ${CMAKE_BINARY_DIR}/${P_BY}.cpp)
    target_link_libraries(${P_BY} PRIVATE ${P_LIBRARIES})
    target_precompile_headers(${P_BY} PRIVATE ${RAVINE_OUTSIDE_HEADERS} ${P_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${P_BY})
endfunction()

# Several files of a room are compiled as one, since most of what a compiler does here is instantiate the same templates again: names in
# an unnamed namespace are unique within a room. The fuzz preset compiles file by file.
option(RAVINE_UNITY "compile several files of a room together" ON)
function(ravine_unity target)
  if(RAVINE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# ravine_room(name EXCLUDE ... LIBRARIES ...): declares the library ravine_<name> of all .cpp files of the folder and the folders in
# it, but those in EXCLUDE. It links every lower room that exists; libraries from outside stay private to it.
function(ravine_room name)
  cmake_parse_arguments(R "" "" "SOURCES;EXCLUDE;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(file IN LISTS R_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  add_library(ravine_${name} STATIC ${sources})
  ravine_include_folder(${name} folder)
  target_include_directories(ravine_${name} PRIVATE ${folder})
  ravine_level(${name} mine)
  foreach(other IN LISTS RAVINE_ROOMS)
    ravine_level(${other} level)
    if(level LESS mine AND TARGET ravine_${other})
      target_link_libraries(ravine_${name} PUBLIC ravine_${other})
    endif()
  endforeach()
  target_link_libraries(ravine_${name} PUBLIC fmt::fmt PRIVATE ${R_LIBRARIES})
  ravine_precompile(ravine_${name} BY ravine_outside LIBRARIES fmt::fmt nlohmann_json::nlohmann_json)
  ravine_unity(ravine_${name})
endfunction()
