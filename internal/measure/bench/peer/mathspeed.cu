// Kernels that call one function of math.h each. mathspeed.cc times them, compiled with
// Ferry's header and with nvcc:
//
//   ferry compile internal/measure/bench/peer/mathspeed.cu --compiler clang -o ferry.ptx
//   nvcc -arch=compute_80 -ptx -o nvcc.ptx internal/measure/bench/peer/mathspeed.cu
//   nvcc -o mathspeed internal/measure/bench/peer/mathspeed.cc -lcuda && ./mathspeed ferry.ptx nvcc.ptx >out.csv

// KERNEL defines a kernel in which each thread adds n values of an expression in x. The x of
// a block go from LOW to HIGH.
#define KERNEL(NAME, T, EXPRESSION, LOW, HIGH)                                                 \
    extern "C" __global__ void time_##NAME(T *out, int n)                                      \
    {                                                                                          \
        T step = (T)((HIGH) - (LOW)) / (T)(n * 1024), x = (T)(LOW) + step * (T)(threadIdx.x * n); \
        T sum = 0;                                                                             \
        for (int i = 0; i < n; i++) {                                                          \
            sum += EXPRESSION;                                                                 \
            x += step;                                                                         \
        }                                                                                      \
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;                                      \
    }

// BOTH defines the kernels of a function of one argument, for float and double.
#define BOTH(NAME, LOW, HIGH) KERNEL(NAME##f, float, NAME##f(x), LOW, HIGH) KERNEL(NAME, double, NAME(x), LOW, HIGH)

BOTH(sin, 0, 20)
BOTH(cos, 0, 20)
BOTH(tan, 0, 20)
BOTH(exp, -20, 20)
BOTH(exp2, -20, 20)
BOTH(log, 0.1, 20)
BOTH(log2, 0.1, 20)
BOTH(log1p, 0.1, 20)
BOTH(expm1, -2, 2)
BOTH(tanh, -3, 3)
BOTH(sinh, -3, 3)
BOTH(cosh, -3, 3)
BOTH(asin, -1, 1)
BOTH(acos, -1, 1)
BOTH(atan, -4, 4)
BOTH(asinh, -4, 4)
BOTH(acosh, 1, 9)
BOTH(atanh, -0.9, 0.9)
BOTH(sqrt, 0, 9)
BOTH(rsqrt, 0.1, 9)
BOTH(cbrt, 0.1, 9)
BOTH(erf, -3, 3)
BOTH(erfc, -3, 8)
BOTH(erfinv, -0.9, 0.9)
BOTH(normcdf, -5, 5)
BOTH(tgamma, 0.5, 20)
BOTH(lgamma, 0.5, 20)
BOTH(sinpi, -4, 4)
KERNEL(powf, float, powf(x, 1.7f), 0.1, 9)
KERNEL(pow, double, pow(x, 1.7), 0.1, 9)
KERNEL(atan2f, float, atan2f(x, 1.7f), -9, 9)
KERNEL(atan2, double, atan2(x, 1.7), -9, 9)
KERNEL(hypotf, float, hypotf(x, 1.7f), 0.1, 9)
KERNEL(hypot, double, hypot(x, 1.7), 0.1, 9)
KERNEL(fmodf, float, fmodf(x, 0.7f), 0.1, 99)
KERNEL(fmod, double, fmod(x, 0.7), 0.1, 99)
KERNEL(sinf_huge, float, sinf(x), 1e6, 1e7)
KERNEL(sin_huge, double, sin(x), 1e10, 1e11)
