// A library with the functions of cuBLAS that the program calls. It multiplies on the CPU, at once, so
// its matrices are in memory of the host. gcc -shared -fPIC -o libcublas.so.13 fake.c
#include <stddef.h>

typedef void *handle;
static char object;
static void *stream, *workspace;
static size_t workspace_bytes;

int cublasCreate_v2(handle *h) { *h = &object; return 0; }
int cublasDestroy_v2(handle h) { return h == &object ? 0 : 1; }
int cublasGetVersion_v2(handle h, int *version) { *version = 130203; return h == &object ? 0 : 1; }

int cublasSetStream_v2(handle h, void *s)
{
    stream = s, workspace = NULL, workspace_bytes = 0;
    return h == &object ? 0 : 1;
}

int cublasSetWorkspace_v2(handle h, void *w, size_t bytes)
{
    workspace = w, workspace_bytes = bytes;
    return h == &object ? 0 : 1;
}

int cublasSgemm_v2(handle h, int transa, int transb, int m, int n, int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc)
{
    if (h != &object || transa != 0 || transb != 0) return 1;
    if (m < 0 || n < 0 || k < 0 || lda < m || ldb < k || ldc < m) return 7;
    if (!stream || !workspace || workspace_bytes != 32 << 20) return 14;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++) sum += (double)a[i + l * lda] * b[l + j * ldb];
            c[i + j * ldc] = *alpha * sum + *beta * c[i + j * ldc];
        }
    return 0;
}

const char *cublasGetStatusName(int status)
{
    return status == 1 ? "CUBLAS_STATUS_NOT_INITIALIZED" : status == 7 ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_INTERNAL_ERROR";
}
