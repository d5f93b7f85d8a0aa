// The managed variables of managed.cu.
#pragma once
#define BOTH_SIDES(type, name) __device__ __managed__ type name

struct Pair {
    int first;
    double second;
};

BOTH_SIDES(int, counter) = 5;
__managed__ int without, list[4] = {1, 2, 3};
static __managed__ int limit = 6, seen;
extern __managed__ int elsewhere;

namespace {
__managed__ int hidden = 10;
} // namespace

namespace space {
__managed__ Pair pair = {1, 2.5};
int __managed__ grid[4][5];
__managed__ int *leads = &counter;
} // namespace space

template <class T> __managed__ T value = 7;
template <class T> struct Holder {
    static __managed__ T held;
};
template <class T> __managed__ T Holder<T>::held = 8;
inline __managed__ int shared = 9;

__device__ int __managed_not = 11; // a variable of the device, with a name that resembles the word
