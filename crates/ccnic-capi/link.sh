#!/bin/sh
# Links libccnic.so from the archive that cargo made: link.sh ARCHIVE DIRECTORY
#
# cargo's own `cdylib` cannot carry symbol versions: rustc gives the linker a version script of its own, with an anonymous
# version, and linkers refuse a second script beside it or ignore it.
set -eu
here=$(dirname "$0")
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
${CC:-cc} -shared -o "$2/libccnic.so.$version" \
    -Wl,-soname,libccnic.so.0 -Wl,--version-script="$here/ccnic.map" -Wl,--gc-sections -Wl,-z,defs \
    -Wl,--whole-archive "$1" -Wl,--no-whole-archive -lgcc_s -lpthread -lm -ldl -lc
ln -sf "libccnic.so.$version" "$2/libccnic.so.0"
ln -sf libccnic.so.0 "$2/libccnic.so"
