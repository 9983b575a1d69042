#!/usr/bin/env bash
# Builds the fuzz targets and runs them, two at a time: fuzz/run.sh [SECONDS|ci|build [TARGET ...]]
# For SECONDS each, on top of what earlier runs have found; or, as CI does, a number of executions that is the same everywhere; or only
# builds them.
# Any recent stable toolchain will do: nothing that is fuzzed is unsafe, so there is no sanitizer, and coverage is a pass of LLVM.
set -euo pipefail
cd "$(dirname "$0")"
length=${1:-60}
shift || true
targets=("$@")
((${#targets[@]})) || targets=(changes configuration control_messages frames host_region kv_datagrams kv_snapshot kv_stream nic_region recovery segments switch)
command -v c++ >/dev/null || { echo "SKIPPED: fuzzing needs a C++ compiler for libFuzzer (apt-get install g++)"; exit 0; }

out=${CARGO_TARGET_DIR:-../target}/fuzz
mkdir -p "$out"
out=$(realpath "$out")
coverage="-sanitizer-coverage-level=4 -sanitizer-coverage-inline-8bit-counters -sanitizer-coverage-pc-table -sanitizer-coverage-trace-compares"
flags="--cfg fuzzing -Cpasses=sancov-module -Clink-dead-code=no"
for flag in $coverage; do flags+=" -Cllvm-args=$flag"; done
# With --target the flags are not those of build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
CARGO_TARGET_DIR=$out RUSTFLAGS=$flags "${CARGO:-cargo}" build --release --locked --target "$host"
[[ $length != build ]] || exit 0

# How CI runs a target: README.md says why it counts executions. About a minute each on one core of the development machine.
declare -A executions=([changes]=60000 [configuration]=60000 [control_messages]=4000000 [frames]=4000000 [host_region]=60000 [kv_datagrams]=200000 [kv_snapshot]=200000 [kv_stream]=30000
    [nic_region]=45000 [recovery]=24000 [segments]=400000 [switch]=5000)

fuzz() {
    local target=$1 log=$out/$1.log corpus=$out/corpus/$1 limit=(-max_total_time="$length")
    if [[ $length == ci ]]; then
        corpus=$out/ci/$1 limit=(-runs="${executions[$1]}" -seed=1 -reload=0 -use_cmp=0)
        rm -rf "$corpus"
    fi
    mkdir -p "artifacts/$target" "$corpus"
    # What is new goes to the first folder; corpus/ is read only.
    if "$out/$host/release/$target" "${limit[@]}" -max_len=700 -len_control=0 -timeout=120 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="artifacts/$target/" "$corpus" "corpus/$target" >"$log" 2>&1; then
        stat() { sed -n "s/^stat::$1: *//p" "$log"; }
        echo "$target: $(stat number_of_executed_units) executions in $(sed -n 's/^Done .* in \(.*\) second.*/\1/p' "$log") s," \
            "$(stat new_units_added) new inputs, no findings"
    else
        tail -n 60 "$log"
        echo "$target: a finding in fuzz/artifacts/$target; fuzz/README.md says how to reproduce it" >&2
        return 1
    fi
}

running=() status=0
for target in "${targets[@]}"; do
    if ((${#running[@]} == 2)); then
        wait "${running[0]}" || status=1
        running=("${running[1]}")
    fi
    fuzz "$target" &
    running+=($!)
done
for pid in "${running[@]}"; do wait "$pid" || status=1; done
exit "$status"
