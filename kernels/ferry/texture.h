// Textures and surfaces: their types, and functions whose use is an error that says there are
// none. Sources name them in host code too.
#ifndef FERRY_TEXTURE_H
#define FERRY_TEXTURE_H
#include "define.h"
#ifdef FERRY_CLANG
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
#define cudaTextureType1D 1
#define cudaTextureType2D 2
#define cudaTextureType3D 3
#define cudaSurfaceType1D 1
#define cudaSurfaceType2D 2
#define cudaSurfaceType3D 3
template <class T, int dimensions = 1, int mode = 0> struct __attribute__((device_builtin_texture_type)) texture { int normalized, filterMode, addressMode[3]; };
template <class T, int dimensions = 1> struct surface {};

// The first template argument is the result, if there is one, else the elements of a texture are.
// Arguments are of any type.
#define FERRY_UNAVAILABLE __attribute__((unavailable("Ferry has no textures and no surfaces: read the memory with __ldg, write it plainly")))
#define FERRY_NO_TEXTURE(NAME)                                                             \
    template <class T = float, class... A> __device__ T NAME(A...) FERRY_UNAVAILABLE;      \
    template <class T, int dimensions, int mode, class... A> __device__ T NAME(texture<T, dimensions, mode>, A...) FERRY_UNAVAILABLE;
FERRY_NO_TEXTURE(tex1D)
FERRY_NO_TEXTURE(tex1Dfetch)
FERRY_NO_TEXTURE(tex1DLod)
FERRY_NO_TEXTURE(tex1DGrad)
FERRY_NO_TEXTURE(tex1DLayered)
FERRY_NO_TEXTURE(tex2D)
FERRY_NO_TEXTURE(tex2DLod)
FERRY_NO_TEXTURE(tex2DGrad)
FERRY_NO_TEXTURE(tex2DLayered)
FERRY_NO_TEXTURE(tex2Dgather)
FERRY_NO_TEXTURE(tex3D)
FERRY_NO_TEXTURE(tex3DLod)
FERRY_NO_TEXTURE(tex3DGrad)
FERRY_NO_TEXTURE(texCubemap)
FERRY_NO_TEXTURE(texCubemapLod)
FERRY_NO_TEXTURE(texCubemapLayered)
FERRY_NO_TEXTURE(surf1Dread)
FERRY_NO_TEXTURE(surf1Dwrite)
FERRY_NO_TEXTURE(surf2Dread)
FERRY_NO_TEXTURE(surf2Dwrite)
FERRY_NO_TEXTURE(surf2DLayeredread)
FERRY_NO_TEXTURE(surf2DLayeredwrite)
FERRY_NO_TEXTURE(surf3Dread)
FERRY_NO_TEXTURE(surf3Dwrite)
FERRY_NO_TEXTURE(surfCubemapread)
FERRY_NO_TEXTURE(surfCubemapwrite)
#undef FERRY_NO_TEXTURE
#endif
#endif
