#pragma once
template <class T> __device__ T square(T x) { return x * x; }
