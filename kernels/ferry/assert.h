// assert. As in C, the file can be included again after NDEBUG has changed.
#include "print.h"
#ifdef FERRY_CLANG
#undef assert
#ifdef NDEBUG
#define assert(e) ((void)0)
#else
#define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, __func__, 1))
#endif
#endif
