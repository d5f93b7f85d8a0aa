#include "../../ferry/assert.h"
