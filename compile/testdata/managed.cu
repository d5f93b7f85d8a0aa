#include "managed.h"

// use reads what the host may have written, and writes what the host reads. Nothing writes limit
// and hidden here, and nothing reads seen.
extern "C" __global__ void use(int *sum) {
    *sum = counter + without + list[0] + list[3] + limit + hidden + space::pair.first + space::grid[2][3] + value<int> +
           Holder<int>::held + shared + *space::leads + __managed_not;
    seen = *sum;
    space::pair.second *= 2;
    list[1] = without;
}
