// What the programs of this folder share: an error ends the program and names its line.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

// CHECK ends the program if a call of the runtime fails.
#define CHECK(call)                                                                             \
	do {                                                                                        \
		cudaError_t code = (call);                                                              \
		if (code != cudaSuccess) {                                                              \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(code)); \
			exit(1);                                                                            \
		}                                                                                       \
	} while (0)

// THAT ends the program if a condition does not hold.
#define THAT(condition)                                                           \
	do {                                                                          \
		if (!(condition)) {                                                       \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                              \
		}                                                                         \
	} while (0)
