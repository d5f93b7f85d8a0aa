// The CRC-32C of blocks of 4096 bytes. A CRC is the remainder of a division of polynomials, whose coefficients are
// bits. The highest bit of a word is the coefficient of x^0, as in all CRCs that begin with the lowest bit of a byte.

const unsigned polynomial = 0x82f63b78; // of Castagnoli without x^32, so it is the remainder of x^32, too
const unsigned blockWords = 1024;

// times returns the remainder of a*b.
static __device__ unsigned times(unsigned a, unsigned b)
{
    unsigned product = 0;
    for (unsigned bit = 1u << 31; bit != 0; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b & 1 ? b >> 1 ^ polynomial : b >> 1; // b*x
    }
    return product;
}

// remainders writes the remainder of each of n blocks. A warp has a block. Its threads read neighbouring words, so
// thread i has the words i, i+32, i+64 and so on. Between two of them are 128 bytes, which means a factor of x^1024.
// The table has that product for each value of each of the four bytes of a word. Blocks of threads are whole warps.
extern "C" __global__ void remainders(const unsigned *blocks, unsigned *results, const unsigned *table, unsigned n)
{
    __shared__ unsigned by128[1024];
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x)
        by128[i] = table[i];
    __syncthreads();
    unsigned lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
    for (unsigned b = (blockIdx.x * blockDim.x + threadIdx.x) / 32; b < n; b += warps) {
        const unsigned *words = blocks + (size_t)b * blockWords;
        unsigned sum = 0;
        for (unsigned i = lane; i < blockWords; i += 32)
            sum = by128[sum & 255] ^ by128[256 + (sum >> 8 & 255)] ^ by128[512 + (sum >> 16 & 255)] ^
                  by128[768 + (sum >> 24)] ^ words[i];
        // Add the sums of two threads, then of four and so on. The factor is x^32 for each word between them.
        unsigned factor = polynomial;
        for (int apart = 1; apart < 32; apart *= 2) {
            sum = times(sum, factor) ^ __shfl_down_sync(0xffffffff, sum, apart);
            factor = times(factor, factor);
        }
        if (lane == 0)
            results[b] = times(sum, polynomial);
    }
}
