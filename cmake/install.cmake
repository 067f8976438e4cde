# What is installed: the program, the parquet library beside Apache Arrow's where it was built, manual pages and completions made of the
# tables of commands and options, documentation and ready configs. `cmake --build BUILD --target ravine pages`, then `cmake --install BUILD`.
include(GNUInstallDirs)
set(pages ${CMAKE_BINARY_DIR}/pages)
add_custom_target(pages
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/man ${pages}/completions
  COMMAND ravine man --output ${pages}/man
  COMMAND gzip -9nf ${pages}/man/*.1
  COMMAND ravine completion bash > ${pages}/completions/ravine
  COMMAND ravine completion zsh > ${pages}/completions/_ravine
  COMMAND ravine completion fish > ${pages}/completions/ravine.fish
  COMMENT "Manual pages and completions")

if(SKBUILD)  # a wheel carries the program alone
  install(TARGETS ravine RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR})
  return()
endif()
install(TARGETS ravine RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET ravine_parquet)
  install(TARGETS ravine_parquet LIBRARY DESTINATION lib/ravine)
  install(FILES ${RAVINE_ARROW_LIBRARIES} DESTINATION lib/ravine)
endif()
install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages}/completions/ravine DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${pages}/completions/_ravine DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${pages}/completions/ravine.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES README.md README.zh-CN.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/ravine)

# The Debian package; what it depends on is read off the program by dpkg-shlibdeps.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ravine)
set(CPACK_PACKAGE_VENDOR Ravine)
set(CPACK_PACKAGE_CONTACT "The Ravine maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train, run and examine large language models")
set(CPACK_PACKAGE_DESCRIPTION "One native program that trains, fine-tunes, runs and examines large language models,\nand whose numbers its user can trust.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})
if(MPI_FOUND)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
endif()
include(CPack)
