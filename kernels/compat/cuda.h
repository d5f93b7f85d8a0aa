// cuda.h: the driver API's names. Its functions belong to host code, which Go replaces.
#ifndef FERRY_COMPAT_CUDA_H
#define FERRY_COMPAT_CUDA_H
#include "../ferry/core.h"
#ifdef FERRY_CLANG
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
#endif
#endif
