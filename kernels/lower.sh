#!/bin/sh
# Lowers the PTX of nvcc 13 to what its instructions need, so that older drivers
# and GPUs take it too, and drops the line that names the compiler's build.
exec sed -e 's/^\.version 9\.0$/.version 6.3/' -e 's/^\.target sm_75$/.target sm_52/' \
    -e '/^\/\/ Compiler Build ID/d'
