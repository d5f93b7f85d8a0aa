// Frames of NV12, as video decoders write them: a byte of brightness for each pixel, row by row, then two bytes of
// colour for each 2x2 pixels.

static __device__ unsigned char limited(int x) { return x < 0 ? 0 : x > 255 ? 255 : x; }

// rgb writes frames as red, green and blue, by the standard BT.709 with the range of video, 16 to 235. The factors are
// multiples of 1/256. Width and height are even. A thread has a pixel, and blocks with another z have another frame.
extern "C" __global__ void rgb(const unsigned char *nv12, unsigned char *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    size_t pixels = (size_t)width * height, pixel = (size_t)y * width + x;
    const unsigned char *frame = nv12 + blockIdx.z * (pixels + pixels / 2);
    const unsigned char *colour = frame + pixels + (size_t)(y / 2) * width + x / 2 * 2;
    int light = 298 * (frame[pixel] - 16) + 128, u = colour[0] - 128, v = colour[1] - 128;
    unsigned char *to = out + 3 * (blockIdx.z * pixels + pixel);
    to[0] = limited((light + 459 * v) >> 8);
    to[1] = limited((light - 55 * u - 136 * v) >> 8);
    to[2] = limited((light + 541 * u) >> 8);
}
