extern "C" __global__ void warning(unsigned *x)
{
    unsigned y;
    x[0] = 5;
#warning look here
    x[1] = x[0];
}
