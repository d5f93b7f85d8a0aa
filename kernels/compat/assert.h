#include "../ferry/assert.h"
