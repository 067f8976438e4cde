#!/bin/bash
# comment
A=1; B=$((A+2*3)) C="x y"
export D=${E:-d"e f"}
ARR=(a "b c" # hi
  $A)
ARR+=(last)
NOW=$(date)
if [ -z "$X" ]; then Y=1; fi
for i in 1 2 3; do echo $i; done
W=$((8*${A}))
torchrun --nproc_per_node $W --nnodes=2 x.py "${ARR[@]}" $C '$A' "$C" --k=${A} \
  --log > $NOW.log 2>&1 &
