// A library with the functions of cuFFT that the program calls. It transforms on the CPU, at once, so
// its signals are in memory of the host. gcc -shared -fPIC -o libcufft.so.12 fake.c
#include <stddef.h>

static const int plan = 5;
static int length, count, automatic = 1;
static void *area, *stream;

int cufftCreate(int *p) { *p = plan; return 0; }
int cufftDestroy(int p) { return p == plan ? 0 : 1; }
int cufftGetVersion(int *version) { *version = 12304; return 0; }
int cufftSetAutoAllocation(int p, int automatically) { automatic = automatically; return p == plan ? 0 : 1; }
int cufftSetWorkArea(int p, void *work) { area = work; return p == plan ? 0 : 1; }
int cufftSetStream(int p, void *s) { stream = s; return p == plan ? 0 : 1; }

int cufftMakePlanMany(int p, int rank, int *n, int *inembed, int istride, int idist, int *onembed, int ostride, int odist,
                      int type, int batch, size_t *work)
{
    if (p != plan) return 1;
    if (type != 0x29) return 3;
    if (rank != 1 || n[0] < 1 || batch < 1) return 8;
    if (inembed || onembed || istride != 1 || ostride != 1 || idist != n[0] || odist != n[0]) return 4;
    length = n[0], count = batch, *work = 4096;
    return 0;
}

// The first root of 1 with a positive exponent, by the series of sine and cosine.
static void root(int n, double *re, double *im)
{
    double x = 6.283185307179586 / n, term = 1;
    *re = *im = 0;
    for (int i = 0; i < 40; i += 4) {
        *re += term, term *= x / (i + 1);
        *im += term, term *= x / (i + 2);
        *re -= term, term *= x / (i + 3);
        *im -= term, term *= x / (i + 4);
    }
}

int cufftExecC2C(int p, float *in, float *out, int direction)
{
    if (p != plan) return 1;
    if (automatic || !area) return 13;
    if (!stream) return 99;
    if (direction != 1 && direction != -1) return 4;
    double re, im;
    root(length, &re, &im);
    im *= direction;
    for (int b = 0; b < count; b++, in += 2 * length, out += 2 * length)
        for (int k = 0; k < length; k++) {
            double sr = 0, si = 0;
            for (int j = 0; j < length; j++) {
                double wr = 1, wi = 0;
                for (int e = j * k % length; e > 0; e--) {
                    double r = wr * re - wi * im;
                    wi = wr * im + wi * re, wr = r;
                }
                sr += in[2 * j] * wr - in[2 * j + 1] * wi, si += in[2 * j] * wi + in[2 * j + 1] * wr;
            }
            out[2 * k] = sr, out[2 * k + 1] = si;
        }
    return 0;
}
