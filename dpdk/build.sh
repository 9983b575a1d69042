#!/bin/sh
# Builds the DPDK drivers: build.sh [DIRECTORY]  (default: target/dpdk below the project's root)
#
# They are linked with the libccnic.a of the release build and with the DPDK that pkg-config finds.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
release=${CARGO_TARGET_DIR:-$here/../target}/release
into=${1:-$here/../target/dpdk}
mkdir -p "$into"
into=$(cd "$into" && pwd)
archive=$(cd "$release" && pwd)/libccnic_capi.a
[ -e "$archive" ] || { echo "$archive is missing: run make first" >&2; exit 1; }
"$here/headers.sh" "$into/headers"
# Plugins fit the DPDK that they were built with: another one, and all is built anew.
version=$(pkg-config --modversion libdpdk)
if [ "$(cat "$into/for-dpdk" 2>/dev/null)" != "$version" ]; then
	rm -rf "$into/build.ninja" "$into/meson-private" "$into/meson-info" "$into/drivers" "$into/plugins"
	echo "$version" >"$into/for-dpdk"
fi
[ -e "$into/build.ninja" ] || meson setup "$into" "$here" -Dlibccnic="$archive" -Ddriver_headers="$into/headers/include" >"$into/setup.log" || {
	cat "$into/setup.log" >&2
	exit 1
}
ninja -C "$into" --quiet
mkdir -p "$into/plugins"
find "$into/drivers" -name 'librte_*.so' -exec cp -f {} "$into/plugins/" \;
