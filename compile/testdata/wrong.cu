template <class T> __device__ T half_of(T x) { return x.half; }
__device__ int known(int *p);

__global__ void wrong(int n, const float *x, float *y)
{
	y[0] = absent + 1;
    y[1] = known(x);
    y[2] = half_of(n);
}
