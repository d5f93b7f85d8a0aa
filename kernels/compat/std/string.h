// memcpy and memset for kernels. The other functions are for host code in the same file,
// which is checked and dropped.
#ifndef FERRY_COMPAT_STRING_H
#define FERRY_COMPAT_STRING_H
#include "stddef.h"
#ifdef FERRY_CLANG
extern "C" {
void *memmove(void *, const void *, size_t);
int memcmp(const void *, const void *, size_t);
size_t strlen(const char *);
int strcmp(const char *, const char *);
int strncmp(const char *, const char *, size_t);
char *strcpy(char *, const char *);
char *strncpy(char *, const char *, size_t);
char *strcat(char *, const char *);
char *strchr(const char *, int);
char *strstr(const char *, const char *);
char *strtok(char *, const char *);
char *strerror(int);
}
#endif
#endif
