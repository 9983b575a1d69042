#!/bin/sh
# Fetches the driver headers that libdpdk-dev does not install, and the examples that the tests run: headers.sh DIRECTORY
#
# A DPDK driver that is not part of DPDK's own tree needs ethdev_driver.h, bus_vdev_driver.h and what they include. They come
# from the distribution's source package of exactly the version installed, by the package sources that this machine has
# configured, and stay in DIRECTORY. A DPDK built from source with -Denable_driver_sdk=true installs them: then nothing is done.
# Exit status 77: they cannot be had here.
set -eu
[ $# = 1 ] || { echo "usage: headers.sh DIRECTORY" >&2; exit 2; }
mkdir -p "$1/include"
into=$(cd "$1" && pwd)
public=$(pkg-config --variable=includedir libdpdk)
[ -n "$public" ] && [ -d "$public/dpdk" ] && public=$public/dpdk
if [ -e "$public/ethdev_driver.h" ]; then
	echo "driver headers: installed in $public"
	exit 0
fi
version=$(dpkg-query -W -f '${Version}' libdpdk-dev) || {
	echo "the driver headers are not in $public, and this is no machine with libdpdk-dev:" \
		"build DPDK with -Denable_driver_sdk=true" >&2
	exit 77
}
if [ -e "$into/include/ethdev_driver.h" ] && [ -e "$into/examples" ] && [ "$(cat "$into/version" 2>/dev/null)" = "$version" ]; then
	exit 0
fi

# The machine's own sources, turned into sources of source packages, with lists of their own: no root, nothing is left behind.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/sources.d" "$work/lists/partial" "$work/cache/archives/partial" "$work/unpacked"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
	[ -f "$file" ] && sed -n 's/^deb[[:space:]]/deb-src /p' "$file" >>"$work/sources.d/own.list"
done
for file in /etc/apt/sources.list.d/*.sources; do
	[ -f "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/sources.d/${file##*/}"
done
apt() {
	apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources.d" -o Dir::State::lists="$work/lists" \
		-o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}
apt update >"$work/log" 2>&1 && (cd "$work" && apt source --download-only "dpdk=$version" >>"$work/log" 2>&1) || {
	cat "$work/log" >&2
	echo "could not fetch the source package of dpdk $version, whose headers the drivers need" >&2
	exit 77
}
tar -xf "$work"/dpdk_*.orig.tar.* -C "$work/unpacked" --strip-components=1 --wildcards \
	'*/lib/ethdev/*.h' '*/lib/eal/include/*.h' '*/drivers/bus/vdev/*.h' '*/examples/*'
ls "$work"/unpacked/lib/ethdev/*.h "$work"/unpacked/lib/eal/include/*.h "$work"/unpacked/drivers/bus/vdev/*.h >"$work/found"
while read -r header; do
	name=${header##*/}
	[ -e "$public/$name" ] || cp "$header" "$into/include/$name"
done <"$work/found"
rm -rf "$into/examples"
mv "$work/unpacked/examples" "$into/examples"
echo "$version" >"$into/version"
echo "driver headers: of dpdk $version, in $into/include"
