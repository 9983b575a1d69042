#!/usr/bin/env bash
# Is smoltcp/ the published release with smoltcp.patch applied?
#   check.sh             compares, without a network
#   check.sh diff FOLDER writes the patch anew, against the release in FOLDER
#   check.sh test        runs the unit tests of smoltcp's TCP
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case ${1-} in
'')
    cp -r smoltcp "$work"
    patch --quiet --reverse --strip=1 --directory="$work/smoltcp" <smoltcp.patch
    (cd "$work/smoltcp" && grep -v '\.crate$' | sha256sum --check --quiet --strict) <smoltcp.sha256
    diff <(cd "$work/smoltcp" && find . -type f | sort) <(awk '!/\.crate$/ { print $2 }' smoltcp.sha256 | sort)
    ;;
diff)
    ln -s "$(realpath "$2")" "$work/a" && ln -s "$PWD/smoltcp" "$work/b"
    # The files of the release that are not here are not in the patch either.
    (cd smoltcp && find . -type f | sort) | while read -r file; do
        (cd "$work" && diff -u "a/${file#./}" "b/${file#./}" | sed -E '1,2s/\t.*//') || true
    done >smoltcp.patch
    ;;
test)
    cp -r smoltcp "$work" # the manifest names files that are not here, and a lock file of its own would be written
    cd "$work/smoltcp" && ${CARGO:-cargo} test --lib socket::tcp
    ;;
*)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac
