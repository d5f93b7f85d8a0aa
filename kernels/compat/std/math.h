// The functions of math.h, and its constants.
#ifndef FERRY_COMPAT_MATH_H
#define FERRY_COMPAT_MATH_H
#include "../../ferry/core.h"
#endif
