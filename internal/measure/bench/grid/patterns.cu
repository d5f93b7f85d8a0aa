// The kernels of "ferry bench --set patterns". patterns.ptx is compiled from this file:
// clang-19 -x cuda --cuda-gpu-arch=sm_52 --cuda-device-only -nocudainc -nocudalib -O2 -S patterns.cu
//
// n is a number of words. A kernel with times does its work times times. If not said
// otherwise, a thread writes one word of out, the one with the thread's number.

#define GLOBAL extern "C" __attribute__((global)) void
#define SHARED __attribute__((shared))
typedef unsigned u32;
typedef unsigned long long u64;

static __attribute__((device)) u64 thread_number()
{
    return (u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}

static __attribute__((device)) u64 thread_count()
{
    return (u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
}

// Each thread reads its own word again and again, past the caches.
GLOBAL same_word(const float *in, float *out, u64 n, u32 times)
{
    u64 me = thread_number();
    if (me >= n)
        return;
    float sum = 0;
    for (u32 k = 0; k < times; k++)
        sum += ((const volatile float *)in)[me];
    out[me] = sum;
}

// All threads together read all words. In each pass other blocks read a word: those seven
// blocks further. A thread adds the sum of each pass to its word of out.
GLOBAL passes(const float *in, float *out, u64 n, u32 times)
{
    u64 me = thread_number(), all = thread_count(), ahead = (u64)7 * __nvvm_read_ptx_sreg_ntid_x();
    for (u32 k = 0; k < times; k++) {
        float sum = 0;
        for (u64 i = (me + k * ahead) % all; i < n; i += all)
            sum += in[i];
        out[me] += sum;
    }
}

// Each thread adds its word and the next ones. Behind the end it adds its own word.
GLOBAL neighbours(const float *in, float *out, u64 n, u32 times)
{
    u64 me = thread_number();
    if (me >= n)
        return;
    float sum = 0;
    for (u32 k = 0; k < times; k++) {
        u64 i = me + k;
        if (i >= n)
            i = me;
        sum += in[i];
    }
    out[me] = sum;
}

// Each block reads the first 64 KiB.
GLOBAL shared_table(const float *in, float *out, u64 n, u32 times)
{
    float sum = 0;
    u64 end = n < 16384 ? n : 16384;
    for (u32 k = 0; k < times; k++)
        for (u64 i = __nvvm_read_ptx_sreg_tid_x(); i < end; i += __nvvm_read_ptx_sreg_ntid_x())
            sum += in[i];
    out[thread_number()] = sum;
}

// Each thread adds the words of a row.
GLOBAL row_sums(const float *in, float *out, u64 width, u64 height)
{
    u64 y = thread_number();
    if (y >= height)
        return;
    float sum = 0;
    for (u64 x = 0; x < width; x++)
        sum += in[y * width + x];
    out[y] = sum;
}

// Each thread adds the words of a column, so that a warp reads consecutive words.
GLOBAL column_sums(const float *in, float *out, u64 width, u64 height)
{
    u64 x = thread_number();
    if (x >= width)
        return;
    float sum = 0;
    for (u64 y = 0; y < height; y++)
        sum += in[y * width + x];
    out[x] = sum;
}

GLOBAL gather(const u32 *index, const float *table, float *out, u64 n)
{
    u64 me = thread_number();
    if (me < n)
        out[me] = table[index[me]];
}

GLOBAL scatter(const u32 *index, float *table, u64 n)
{
    u64 me = thread_number();
    if (me < n)
        table[index[me]] = (float)me;
}

// Counts how often each number occurs in index.
GLOBAL histogram(const u32 *index, u32 *table, u64 n)
{
    u64 me = thread_number();
    if (me < n)
        __nvvm_atom_add_gen_i((int *)table + index[me], 1);
}

// Like histogram for numbers below 1024, with a table in shared memory for each block.
GLOBAL histogram_shared(const u32 *index, u32 *table, u64 n)
{
    static SHARED u32 own[1024];
    for (u32 i = __nvvm_read_ptx_sreg_tid_x(); i < 1024; i += __nvvm_read_ptx_sreg_ntid_x())
        own[i] = 0;
    __nvvm_bar_sync(0);
    for (u64 i = thread_number(); i < n; i += thread_count())
        __nvvm_atom_add_gen_i((int *)own + index[i], 1);
    __nvvm_bar_sync(0);
    for (u32 i = __nvvm_read_ptx_sreg_tid_x(); i < 1024; i += __nvvm_read_ptx_sreg_ntid_x())
        __nvvm_atom_add_gen_i((int *)table + i, own[i]);
}

// Changes all words in place.
GLOBAL change(float *x, u64 n)
{
    for (u64 i = thread_number(); i < n; i += thread_count())
        x[i] = x[i] * 2 + 1;
}

// Adds all words: each thread those that are a whole grid apart.
GLOBAL add_up(const float *in, float *out, u64 n)
{
    float sum = 0;
    for (u64 i = thread_number(); i < n; i += thread_count())
        sum += in[i];
    out[thread_number()] = sum;
}

// Writes all words.
GLOBAL write_all(float *out, u64 n)
{
    for (u64 i = thread_number(); i < n; i += thread_count())
        out[i] = (float)i;
}

// Each thread follows a chain of indices that begins at its number, past the caches.
GLOBAL chase_volatile(const u32 *next, u32 *out, u32 steps)
{
    u32 p = (u32)thread_number();
    for (u32 k = 0; k < steps; k++)
        p = ((const volatile u32 *)next)[p];
    out[thread_number()] = p;
}

// Like chase_volatile with plain loads.
GLOBAL chase(const u32 *next, u32 *out, u32 steps)
{
    u32 p = (u32)thread_number();
    for (u32 k = 0; k < steps; k++)
        p = next[p];
    out[thread_number()] = p;
}

// The next kernels compute on a word, each step after the one before.
#define DEPENDENT(name, type, start, step)                      \
    GLOBAL name(const float *in, float *out, u64 n, u32 times)  \
    {                                                           \
        u64 me = thread_number();                               \
        if (me >= n)                                            \
            return;                                             \
        type x = start;                                         \
        for (u32 k = 0; k < times; k++)                         \
            x = step;                                           \
        out[me] = (float)x;                                     \
    }

DEPENDENT(multiply_add, float, in[me], x * 0.999f + 1.0f)
DEPENDENT(multiply_add_double, double, in[me], x * 0.999 + 1.0)
DEPENDENT(square_roots, float, in[me], __nvvm_sqrt_approx_f(x) + 1.5f)
DEPENDENT(exact_square_roots, float, in[me], __nvvm_sqrt_rn_f(x) + 1.5f)
DEPENDENT(divide, float, in[me], 3.0f / x + 1.5f)
DEPENDENT(divide_double, double, in[me], 3.0 / x + 1.5)
DEPENDENT(sines, float, in[me], __nvvm_sin_approx_f(x) + 1.5f)
DEPENDENT(convert, float, in[me], (float)((int)x + 3) * 0.5f)
DEPENDENT(multiply_integers, u32, (u32)in[me], x * 1664525u + 1013904223u)

// Divides integers by a number that the compiler does not know.
GLOBAL divide_integers(const float *in, float *out, u64 n, u32 times)
{
    u64 me = thread_number();
    if (me >= n)
        return;
    u32 x = (u32)me + 12345, by = (u32)in[me] + 7;
    for (u32 k = 0; k < times; k++)
        x = (x + 0x9e3779b9u) / by + k;
    out[me] = (float)x;
}

// Transposes a square matrix by tiles of 32 by 32 words. A block has 256 threads.
GLOBAL transpose(const float *in, float *out, u32 width)
{
    static SHARED float tile[32][33];
    u32 tiles = width / 32, block = __nvvm_read_ptx_sreg_ctaid_x(), t = __nvvm_read_ptx_sreg_tid_x();
    u32 left = block % tiles * 32, top = block / tiles * 32, column = t % 32, first = t / 32;
    for (u32 row = first; row < 32; row += 8)
        tile[row][column] = in[(u64)(top + row) * width + left + column];
    __nvvm_bar_sync(0);
    for (u32 row = first; row < 32; row += 8)
        out[(u64)(left + row) * width + top + column] = tile[column][row];
}

// Multiplies square matrices. Each thread computes a word of c.
GLOBAL multiply(const float *a, const float *b, float *c, u32 width)
{
    u32 me = (u32)thread_number(), y = me / width, x = me % width;
    float sum = 0;
    for (u32 k = 0; k < width; k++)
        sum += a[y * width + k] * b[k * width + x];
    c[me] = sum;
}

// Reads one word in stride.
GLOBAL touch(const float *in, float *out, u64 n, u64 stride)
{
    u64 me = thread_number();
    if (me * stride < n)
        out[me] = in[me * stride];
}

GLOBAL nothing(u32 x)
{
}
