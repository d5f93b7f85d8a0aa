// bool, true and false are words of C++.
#ifndef FERRY_COMPAT_STDBOOL_H
#define FERRY_COMPAT_STDBOOL_H
#endif
