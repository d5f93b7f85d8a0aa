// printf for kernels. The other functions are for host code in the same file, which is
// checked and dropped.
#ifndef FERRY_COMPAT_STDIO_H
#define FERRY_COMPAT_STDIO_H
#include "../../ferry/core.h"
#ifdef FERRY_CLANG
typedef struct ferry_file FILE;
extern "C" {
extern FILE *stdin, *stdout, *stderr;
int fprintf(FILE *, const char *, ...);
int sprintf(char *, const char *, ...);
int snprintf(char *, size_t, const char *, ...);
int scanf(const char *, ...);
int fscanf(FILE *, const char *, ...);
int sscanf(const char *, const char *, ...);
int puts(const char *);
int putchar(int);
int getchar(void);
int fputs(const char *, FILE *);
int fputc(int, FILE *);
char *fgets(char *, int, FILE *);
FILE *fopen(const char *, const char *);
int fclose(FILE *);
int fflush(FILE *);
int feof(FILE *);
size_t fread(void *, size_t, size_t, FILE *);
size_t fwrite(const void *, size_t, size_t, FILE *);
int fseek(FILE *, long, int);
long ftell(FILE *);
void perror(const char *);
}
#define EOF (-1)
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
#endif
#endif
