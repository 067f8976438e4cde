# A room is one folder of src/ and one static library. Its include path is a generated folder of links that holds only
# the rooms of a lower level and itself, so an include against the dependency rule does not compile.
set(RAVINE_ROOMS base config device kernels files comm engine model optim parallel io data plan train infer eval probe apps)
set(RAVINE_LEVELS 0   1      1      2       2     2    3      4     5     5        5  5    6    6     6     7    7     8)

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

# ravine_room(name SOURCES ... LIBRARIES ...): declares the library ravine_<name>. It links every lower room that exists
# (rooms are declared in order of level); libraries from outside stay private to it.
function(ravine_room name)
  cmake_parse_arguments(R "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(ravine_${name} STATIC ${R_SOURCES})
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
endfunction()
