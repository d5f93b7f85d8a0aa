// Matrix fragments of a warp: nvcuda::wmma, on the instructions wmma of PTX. Half is for sm_70,
// 8-bit integers for sm_72, bfloat16, tf32 and double for sm_80.
#ifndef FERRY_COMPAT_MMA_H
#define FERRY_COMPAT_MMA_H
#ifdef __CUDACC_RTC__
#error "NVRTC needs NVIDIA's own mma.h: install the toolkit's headers, or use clang"
#endif
#include "../ferry/bfloat16.h"
#include "../ferry/half.h"
#ifdef FERRY_CLANG
namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32; }
namespace experimental { namespace precision { struct u4; struct s4; struct b1; } }

// A fragment has its elements in x. Which element of the matrix each is, is not defined.
template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment;
template <class T, int n, class E> struct ferry_fragment {
    typedef E element_type;
    typedef E storage_element_type;
    static constexpr int num_elements = n, num_storage_elements = n;
    E x[n];
};
template <class F, class T> FERRY_D void fill_fragment(F &f, T v) {
    _Pragma("unroll") for (int i = 0; i < f.num_elements; i++) f.x[i] = (typename F::element_type)v;
}
// Fragments of 4 bits and of 1 bit are deprecated, and not here.
template <class T> struct ferry_few_bits { static_assert(sizeof(T) == 0, "Ferry has no fragments of 4 bits or 1 bit: use those of signed char or unsigned char"); };
template <class Use, int m, int n, int k, class L> struct fragment<Use, m, n, k, experimental::precision::u4, L> : ferry_few_bits<Use> {};
template <class Use, int m, int n, int k, class L> struct fragment<Use, m, n, k, experimental::precision::s4, L> : ferry_few_bits<Use> {};
template <class Use, int m, int n, int k, class L> struct fragment<Use, m, n, k, experimental::precision::b1, L> : ferry_few_bits<Use> {};
FERRY_D float __float_to_tf32(float v) { unsigned r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v)); return __builtin_bit_cast(float, r); }

// Registers of a fragment: their names in the text of an instruction, as outputs, as inputs.
#define FERRY_NAMES1(p) "{%[" #p "0]}"
#define FERRY_NAMES2(p) "{%[" #p "0],%[" #p "1]}"
#define FERRY_NAMES4(p) "{%[" #p "0],%[" #p "1],%[" #p "2],%[" #p "3]}"
#define FERRY_NAMES8(p) "{%[" #p "0],%[" #p "1],%[" #p "2],%[" #p "3],%[" #p "4],%[" #p "5],%[" #p "6],%[" #p "7]}"
#define FERRY_OUT1(p, C) [p##0] "=" C(p[0])
#define FERRY_OUT2(p, C) FERRY_OUT1(p, C), [p##1] "=" C(p[1])
#define FERRY_OUT4(p, C) FERRY_OUT2(p, C), [p##2] "=" C(p[2]), [p##3] "=" C(p[3])
#define FERRY_OUT8(p, C) FERRY_OUT4(p, C), [p##4] "=" C(p[4]), [p##5] "=" C(p[5]), [p##6] "=" C(p[6]), [p##7] "=" C(p[7])
#define FERRY_IN1(p, C) [p##0] C(p[0])
#define FERRY_IN2(p, C) FERRY_IN1(p, C), [p##1] C(p[1])
#define FERRY_IN4(p, C) FERRY_IN2(p, C), [p##2] C(p[2]), [p##3] C(p[3])
#define FERRY_IN8(p, C) FERRY_IN4(p, C), [p##4] C(p[4]), [p##5] C(p[5]), [p##6] C(p[6]), [p##7] C(p[7])

// FERRY_OPERAND defines the fragment of matrix A or B, in R registers W, and its load.
#define FERRY_OPERAND(USE, AB, M, N, K, TAG, E, COUNT, W, C, R, LAYOUT, WORD, TYPE)        \
    template <> struct fragment<USE, M, N, K, TAG, LAYOUT> : ferry_fragment<TAG, COUNT, E> {}; \
    FERRY_D void load_matrix_sync(fragment<USE, M, N, K, TAG, LAYOUT> &f, const E *p, unsigned ldm) { \
        W a[R];                                                                            \
        asm volatile("wmma.load." AB ".sync.aligned." WORD ".m" #M "n" #N "k" #K "." TYPE " " FERRY_NAMES##R(a) ", [%[p]], %[ldm];" : FERRY_OUT##R(a, C) : [p] "l"(p), [ldm] "r"(ldm) : "memory"); \
        __builtin_memcpy(f.x, a, sizeof(a));                                               \
    }
#define FERRY_OPERANDS(M, N, K, TAG, E, W, C, CA, RA, CB, RB, TYPE)                        \
    FERRY_OPERAND(matrix_a, "a", M, N, K, TAG, E, CA, W, C, RA, row_major, "row", TYPE)    \
    FERRY_OPERAND(matrix_a, "a", M, N, K, TAG, E, CA, W, C, RA, col_major, "col", TYPE)    \
    FERRY_OPERAND(matrix_b, "b", M, N, K, TAG, E, CB, W, C, RB, row_major, "row", TYPE)    \
    FERRY_OPERAND(matrix_b, "b", M, N, K, TAG, E, CB, W, C, RB, col_major, "col", TYPE)

// FERRY_RESULT defines the fragment of the sum, its load and its store.
#define FERRY_MOVE_RESULT(M, N, K, E, W, C, R, WORD, TYPE)                                 \
    FERRY_D void ferry_load_##WORD(fragment<accumulator, M, N, K, E> &f, const E *p, unsigned ldm) { \
        W a[R];                                                                            \
        asm volatile("wmma.load.c.sync.aligned." #WORD ".m" #M "n" #N "k" #K "." TYPE " " FERRY_NAMES##R(a) ", [%[p]], %[ldm];" : FERRY_OUT##R(a, C) : [p] "l"(p), [ldm] "r"(ldm) : "memory"); \
        __builtin_memcpy(f.x, a, sizeof(a));                                               \
    }                                                                                      \
    FERRY_D void ferry_store_##WORD(E *p, const fragment<accumulator, M, N, K, E> &f, unsigned ldm) { \
        W a[R];                                                                            \
        __builtin_memcpy(a, f.x, sizeof(a));                                               \
        asm volatile("wmma.store.d.sync.aligned." #WORD ".m" #M "n" #N "k" #K "." TYPE " [%[p]], " FERRY_NAMES##R(a) ", %[ldm];" ::[p] "l"(p), FERRY_IN##R(a, C), [ldm] "r"(ldm) : "memory"); \
    }
#define FERRY_RESULT(M, N, K, E, COUNT, W, C, R, TYPE)                                     \
    template <> struct fragment<accumulator, M, N, K, E> : ferry_fragment<E, COUNT, E> {}; \
    FERRY_MOVE_RESULT(M, N, K, E, W, C, R, row, TYPE)                                      \
    FERRY_MOVE_RESULT(M, N, K, E, W, C, R, col, TYPE)                                      \
    FERRY_D void load_matrix_sync(fragment<accumulator, M, N, K, E> &f, const E *p, unsigned ldm, layout_t layout) { \
        if (layout == mem_row_major) ferry_load_row(f, p, ldm); else ferry_load_col(f, p, ldm); \
    }                                                                                      \
    FERRY_D void store_matrix_sync(E *p, const fragment<accumulator, M, N, K, E> &f, unsigned ldm, layout_t layout) { \
        if (layout == mem_row_major) ferry_store_row(p, f, ldm); else ferry_store_col(p, f, ldm); \
    }

// FERRY_MULTIPLY defines d = a*b + c.
#define FERRY_MULTIPLY1(M, N, K, TAG, W, C, RA, RB, E, WE, CE, RE, LA, LB, WA, WB, TYPES) \
    FERRY_D void mma_sync(fragment<accumulator, M, N, K, E> &df, const fragment<matrix_a, M, N, K, TAG, LA> &af, const fragment<matrix_b, M, N, K, TAG, LB> &bf, const fragment<accumulator, M, N, K, E> &cf) { \
        W a[RA], b[RB];                                                                    \
        WE c[RE], d[RE];                                                                   \
        __builtin_memcpy(a, af.x, sizeof(a));                                              \
        __builtin_memcpy(b, bf.x, sizeof(b));                                              \
        __builtin_memcpy(c, cf.x, sizeof(c));                                              \
        asm volatile("wmma.mma.sync.aligned." WA "." WB ".m" #M "n" #N "k" #K "." TYPES " " FERRY_NAMES##RE(d) ", " FERRY_NAMES##RA(a) ", " FERRY_NAMES##RB(b) ", " FERRY_NAMES##RE(c) ";" \
                     : FERRY_OUT##RE(d, CE) : FERRY_IN##RA(a, C), FERRY_IN##RB(b, C), FERRY_IN##RE(c, CE)); \
        __builtin_memcpy(df.x, d, sizeof(d));                                              \
    }
#define FERRY_MULTIPLY(M, N, K, TAG, W, C, RA, RB, E, WE, CE, RE, TYPES)                   \
    FERRY_MULTIPLY1(M, N, K, TAG, W, C, RA, RB, E, WE, CE, RE, row_major, row_major, "row", "row", TYPES) \
    FERRY_MULTIPLY1(M, N, K, TAG, W, C, RA, RB, E, WE, CE, RE, row_major, col_major, "row", "col", TYPES) \
    FERRY_MULTIPLY1(M, N, K, TAG, W, C, RA, RB, E, WE, CE, RE, col_major, row_major, "col", "row", TYPES) \
    FERRY_MULTIPLY1(M, N, K, TAG, W, C, RA, RB, E, WE, CE, RE, col_major, col_major, "col", "col", TYPES)

#if FERRY_SM >= 700
#define FERRY_HALF_SHAPE(M, N, K)                                                          \
    FERRY_OPERANDS(M, N, K, __half, __half, unsigned, "r", 16, 8, 16, 8, "f16")            \
    FERRY_RESULT(M, N, K, __half, 8, unsigned, "r", 4, "f16")                              \
    FERRY_RESULT(M, N, K, float, 8, float, "f", 8, "f32")                                  \
    FERRY_MULTIPLY(M, N, K, __half, unsigned, "r", 8, 8, __half, unsigned, "r", 4, "f16.f16") \
    FERRY_MULTIPLY(M, N, K, __half, unsigned, "r", 8, 8, float, float, "f", 8, "f32.f32")
FERRY_HALF_SHAPE(16, 16, 16)
FERRY_HALF_SHAPE(32, 8, 16)
FERRY_HALF_SHAPE(8, 32, 16)
#undef FERRY_HALF_SHAPE
#endif
#if FERRY_SM >= 720
#define FERRY_BYTE_SHAPE(M, N, K, CA, RA, CB, RB)                                          \
    FERRY_RESULT(M, N, K, int, 8, int, "r", 8, "s32")                                      \
    FERRY_OPERANDS(M, N, K, signed char, signed char, unsigned, "r", CA, RA, CB, RB, "s8") \
    FERRY_OPERANDS(M, N, K, unsigned char, unsigned char, unsigned, "r", CA, RA, CB, RB, "u8") \
    FERRY_MULTIPLY(M, N, K, signed char, unsigned, "r", RA, RB, int, int, "r", 8, "s32.s8.s8.s32") \
    FERRY_MULTIPLY(M, N, K, unsigned char, unsigned, "r", RA, RB, int, int, "r", 8, "s32.u8.u8.s32")
FERRY_BYTE_SHAPE(16, 16, 16, 8, 2, 8, 2)
FERRY_BYTE_SHAPE(32, 8, 16, 16, 4, 4, 1)
FERRY_BYTE_SHAPE(8, 32, 16, 4, 1, 16, 4)
#undef FERRY_BYTE_SHAPE
#endif
#if FERRY_SM >= 800
#define FERRY_BFLOAT16_SHAPE(M, N, K, CA, RA, CB, RB)                                      \
    FERRY_OPERANDS(M, N, K, __nv_bfloat16, __nv_bfloat16, unsigned, "r", CA, RA, CB, RB, "bf16") \
    FERRY_MULTIPLY(M, N, K, __nv_bfloat16, unsigned, "r", RA, RB, float, float, "f", 8, "f32.bf16.bf16.f32")
FERRY_BFLOAT16_SHAPE(16, 16, 16, 8, 4, 8, 4)
FERRY_BFLOAT16_SHAPE(32, 8, 16, 16, 8, 4, 2)
FERRY_BFLOAT16_SHAPE(8, 32, 16, 4, 2, 16, 8)
#undef FERRY_BFLOAT16_SHAPE
FERRY_OPERANDS(16, 16, 8, precision::tf32, float, unsigned, "r", 4, 4, 4, 4, "tf32")
FERRY_RESULT(16, 16, 8, float, 8, float, "f", 8, "f32")
FERRY_MULTIPLY(16, 16, 8, precision::tf32, unsigned, "r", 4, 4, float, float, "f", 8, "f32.tf32.tf32.f32")
FERRY_OPERANDS(8, 8, 4, double, double, double, "d", 1, 1, 1, 1, "f64")
FERRY_RESULT(8, 8, 4, double, 2, double, "d", 2, "f64")
FERRY_MULTIPLY(8, 8, 4, double, double, "d", 1, 1, double, double, "d", 2, "f64.f64.f64.f64")
#endif
}
}
#endif
#endif
