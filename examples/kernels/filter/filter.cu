// A filter of 5x5 weights for images of 8 bits a pixel.

// Plan describes an image and the filter. It is passed by value, and filter_cu.go has it as
// a Go struct.
struct Plan {
    int width, height;
    int stride;        // bytes from a row to the next
    float weights[25]; // row by row
};

// nearest returns the index from 0 to n-1 that is nearest to i.
static __device__ int nearest(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

// Pixels beyond the border have the value of the nearest pixel. The result is rounded to
// the nearest integer, ties to even, and limited to 0..255.
extern "C" __global__ void filter(Plan p, const unsigned char *in, unsigned char *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.width || y >= p.height) return;
    float sum = 0;
    for (int dy = 0; dy < 5; dy++) {
        int row = nearest(y + dy - 2, p.height);
        for (int dx = 0; dx < 5; dx++) {
            int column = nearest(x + dx - 2, p.width);
            sum = fmaf(p.weights[5 * dy + dx], (float)in[row * p.stride + column], sum);
        }
    }
    out[y * p.stride + x] = (unsigned char)fminf(fmaxf(rintf(sum), 0.0f), 255.0f);
}
