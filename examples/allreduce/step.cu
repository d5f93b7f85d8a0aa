// A linear model: the prediction for a row of x is its product with the weights.

// gradient writes the gradient of the mean squared error of n rows with d columns. Thread j has
// column j, so one block of d threads is enough, and the sums have one order.
extern "C" __global__ void gradient(const float *x, const float *y, const float *weights, float *gradient, int n, int d)
{
    int j = threadIdx.x;
    if (j >= d)
        return;
    float sum = 0;
    for (int i = 0; i < n; i++) {
        const float *row = x + i * d;
        float error = -y[i];
        for (int k = 0; k < d; k++)
            error = fmaf(row[k], weights[k], error);
        sum = fmaf(error, row[j], sum);
    }
    gradient[j] = 2 * sum / n;
}

// step moves the weights against the gradient.
extern "C" __global__ void step(float *weights, const float *gradient, float rate, int d)
{
    int j = threadIdx.x;
    if (j < d)
        weights[j] = fmaf(-rate, gradient[j], weights[j]);
}
