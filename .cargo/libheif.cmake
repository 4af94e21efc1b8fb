# How libheif is built, beyond what its crate states: HEVC alone, and in fewer, larger translation units.
#
# CMake takes other codecs (JPEG, AV1, ...) from whatever libraries the building machine has; a binary would then depend on
# them and accept HEIF files that hold such pictures. Only libde265 is wanted.
foreach(codec JPEG_DECODER JPEG_ENCODER AOM_DECODER AOM_ENCODER DAV1D RAV1E SvtEnc X264 X265 KVAZAAR OPENJPH_ENCODER
    OpenJPEG_DECODER OpenJPEG_ENCODER OPEN_JPH_ENCODER OpenH264_DECODER UVG266 VVDEC VVENC)
  set(WITH_${codec} OFF CACHE BOOL "" FORCE)
endforeach()
set(WITH_LIBSHARPYUV OFF CACHE BOOL "" FORCE)

# Only the conversion from YCbCr has loops over pixels; libde265, which decodes, is a shared library. 135 s of processor time
# become 94.
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG" CACHE STRING "" FORCE)

# Joined translation units parse the shared headers once: 276 s of processor time become 138.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "" FORCE)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16 CACHE STRING "" FORCE)
get_property(in_try_compile GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT in_try_compile AND NOT libheif_deferred)
  set(libheif_deferred ON)
  # These define the same static names, include a header without a guard, or are optimised more.
  function(libheif_separate_units)
    file(GLOB separate "${CMAKE_SOURCE_DIR}/libheif/plugins/*.cc" "${CMAKE_SOURCE_DIR}/libheif/codecs/*vc_*.cc"
      "${CMAKE_SOURCE_DIR}/libheif/image-items/tiled.cc"
      "${CMAKE_SOURCE_DIR}/libheif/color-conversion/yuv2rgb.cc")
    set_source_files_properties(${separate} TARGET_DIRECTORY heif PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    set_source_files_properties("${CMAKE_SOURCE_DIR}/libheif/color-conversion/yuv2rgb.cc"
      TARGET_DIRECTORY heif PROPERTIES COMPILE_OPTIONS -O3)
  endfunction()
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL libheif_separate_units)
endif()
