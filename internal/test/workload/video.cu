// The kernels of a video pipeline, a thread for each pixel. ferry compile made video.ptx of them, with
// clang 19.

typedef unsigned char u8;
#define G extern "C" __global__ void
#define PIXEL \
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; \
    if (x >= width || y >= height) return; \
    int i = y * width + x

__device__ static u8 clip(int v) { return (u8)min(max(v, 0), 255); }

// NV12, which has a plane of luma and one of pairs of chroma for 2 by 2 pixels, to RGB.
G nv12_to_rgb(const u8 *nv12, u8 *rgb, int width, int height)
{
    PIXEL;
    const u8 *chroma = nv12 + width * height + y / 2 * width + x / 2 * 2;
    int luma = 298 * (nv12[i] - 16), u = chroma[0] - 128, v = chroma[1] - 128;
    rgb[3 * i] = clip((luma + 409 * v + 128) >> 8);
    rgb[3 * i + 1] = clip((luma - 100 * u - 208 * v + 128) >> 8);
    rgb[3 * i + 2] = clip((luma + 516 * u + 128) >> 8);
}

// A tone curve of 256 values for each channel, in place.
G grade(const u8 *curve, u8 *rgb, int width, int height)
{
    PIXEL;
    for (int c = 0; c < 3; c++) rgb[3 * i + c] = curve[256 * c + rgb[3 * i + c]];
}

// The mean of a pixel and its four neighbours.
G soften(const u8 *rgb, u8 *out, int width, int height)
{
    PIXEL;
    int left = x > 0 ? 3 : 0, right = x < width - 1 ? 3 : 0, up = y > 0 ? 3 * width : 0, down = y < height - 1 ? 3 * width : 0;
    for (int c = 0; c < 3; c++) {
        const u8 *p = rgb + 3 * i + c;
        out[3 * i + c] = (u8)((p[0] + p[-left] + p[right] + p[-up] + p[down]) / 5);
    }
}

// RGB of bytes to three planes of floats, as a network reads them.
G planes(const u8 *rgb, float *out, int width, int height)
{
    PIXEL;
    for (int c = 0; c < 3; c++) out[c * width * height + i] = rgb[3 * i + c] * (2.0f / 255.0f) - 1.0f;
}
