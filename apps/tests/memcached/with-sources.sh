#!/bin/sh
# Runs a command of apt with Debian's source packages among what it knows, and changes nothing of the system: `with-sources.sh apt-get source …`.
set -e
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT
mkdir -p "$lists/lists/partial" "$lists/parts"
cat /etc/apt/sources.list.d/debian.sources 2>/dev/null | sed 's/^Types:.*/Types: deb-src/' >"$lists/parts/debian.sources"
sed -n 's/^deb /deb-src /p' /etc/apt/sources.list 2>/dev/null >"$lists/sources.list" || :
options="-o Dir::Etc::sourcelist=$lists/sources.list -o Dir::Etc::sourceparts=$lists/parts -o Dir::State::lists=$lists/lists"
command=$1
shift
# shellcheck disable=SC2086
"$command" $options update
# shellcheck disable=SC2086
"$command" $options "$@"
