// channel_descriptor.h: descriptions of the elements of arrays and textures.
#ifndef FERRY_COMPAT_CHANNEL_DESCRIPTOR_H
#define FERRY_COMPAT_CHANNEL_DESCRIPTOR_H
#define __CHANNEL_DESCRIPTOR_H__ // sources ask for it
#include "../ferry/core.h"
#include "cuda_runtime_api.h"
#if defined(FERRY_API) && defined(__cplusplus)
template <class T> static inline cudaChannelFormatDesc cudaCreateChannelDesc() { return cudaCreateChannelDesc(0, 0, 0, 0, cudaChannelFormatKindNone); }
#define FERRY_CHANNEL(T, x, y, z, w, KIND) template <> inline cudaChannelFormatDesc cudaCreateChannelDesc<T>() { return cudaCreateChannelDesc(x, y, z, w, cudaChannelFormatKind##KIND); }
#define FERRY_CHANNELS(T, V, KIND) \
    FERRY_CHANNEL(T, 8 * (int)sizeof(T), 0, 0, 0, KIND) \
    FERRY_CHANNEL(V##1, 8 * (int)sizeof(T), 0, 0, 0, KIND) \
    FERRY_CHANNEL(V##2, 8 * (int)sizeof(T), 8 * (int)sizeof(T), 0, 0, KIND) \
    FERRY_CHANNEL(V##4, 8 * (int)sizeof(T), 8 * (int)sizeof(T), 8 * (int)sizeof(T), 8 * (int)sizeof(T), KIND)
FERRY_CHANNELS(signed char, char, Signed)
FERRY_CHANNELS(unsigned char, uchar, Unsigned)
FERRY_CHANNELS(short, short, Signed)
FERRY_CHANNELS(unsigned short, ushort, Unsigned)
FERRY_CHANNELS(int, int, Signed)
FERRY_CHANNELS(unsigned, uint, Unsigned)
FERRY_CHANNELS(float, float, Float)
template <> inline cudaChannelFormatDesc cudaCreateChannelDesc<char>() { return cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindSigned); }
#undef FERRY_CHANNELS
#undef FERRY_CHANNEL
#endif
#endif
