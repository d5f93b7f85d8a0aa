// malloc and free for kernels. The other functions are for host code in the same file, which
// is checked and dropped.
#ifndef FERRY_COMPAT_STDLIB_H
#define FERRY_COMPAT_STDLIB_H
#include "stddef.h"
#ifdef FERRY_CLANG
extern "C" {
__attribute__((noreturn)) void exit(int);
__attribute__((noreturn)) void abort(void);
void *calloc(size_t, size_t);
void *realloc(void *, size_t);
int atoi(const char *);
long atol(const char *);
double atof(const char *);
long strtol(const char *, char **, int);
unsigned long strtoul(const char *, char **, int);
double strtod(const char *, char **);
int rand(void);
void srand(unsigned);
double drand48(void);
void srand48(long);
long random(void);
void srandom(unsigned);
char *getenv(const char *);
void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
}
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
#endif
#endif
