#!/bin/sh
# Lowers the ISA version and target of nvcc 13's PTX to what the instructions need, so
# that older drivers and GPUs accept it. Removes the line with the compiler's build.
exec sed -e 's/^\.version 9\.0$/.version 6.3/' -e 's/^\.target sm_75$/.target sm_52/' \
    -e '/^\/\/ Compiler Build ID/d'
