// device_launch_parameters.h of CUDA: what it declares for kernels.
#ifndef FERRY_COMPAT_DEVICE_LAUNCH_PARAMETERS_H
#define FERRY_COMPAT_DEVICE_LAUNCH_PARAMETERS_H
#define __DEVICE_LAUNCH_PARAMETERS_H__ // sources ask for it
#include "../ferry/core.h"
#endif
