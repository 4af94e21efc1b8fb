# How libheif is built, beyond what its crate states: HEVC alone, and in fewer, larger translation units.
#
# CMake takes other codecs (JPEG, AV1, ...) from whatever libraries the building machine has; a binary would then depend on
# them and accept HEIF files that hold such pictures. Only libde265 is wanted.
foreach(codec JPEG_DECODER JPEG_ENCODER AOM_DECODER AOM_ENCODER DAV1D RAV1E SvtEnc X264 X265 KVAZAAR OPENJPH_ENCODER
    OpenJPEG_DECODER OpenJPEG_ENCODER OPEN_JPH_ENCODER OpenH264_DECODER UVG266 VVDEC VVENC)
  set(WITH_${codec} OFF CACHE BOOL "" FORCE)
endforeach()
set(WITH_LIBSHARPYUV OFF CACHE BOOL "" FORCE)

# Joined translation units parse the shared headers once: 276 s of processor time become 138.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "" FORCE)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16 CACHE STRING "" FORCE)
get_property(in_try_compile GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT in_try_compile AND NOT libheif_deferred)
  set(libheif_deferred ON)
  # These define the same static names, or include a header without a guard.
  function(libheif_separate_units)
    file(GLOB separate "${CMAKE_SOURCE_DIR}/libheif/plugins/*.cc" "${CMAKE_SOURCE_DIR}/libheif/codecs/*vc_*.cc"
      "${CMAKE_SOURCE_DIR}/libheif/image-items/tiled.cc")
    set_source_files_properties(${separate} TARGET_DIRECTORY heif PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endfunction()
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL libheif_separate_units)
endif()
