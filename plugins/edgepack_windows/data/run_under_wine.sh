# run_under_wine.sh FOLDER WINE LIBRARIES PROGRAM WORD..., FOLDER being wine's, for a sandbox that shows what is named: in a Windows of its own that has kernel32 and nothing else (and for a
# program with a server sockets, with what wine's are made of), and that is gone afterwards. Nothing of the user's folder is read or written.
wine=$2 libraries=$3
shift 3
prefix=$(mktemp -d "${TMPDIR:-/tmp}/edgepack-wine-XXXXXX") || exit 1
# wine makes folders of its own where TMPDIR says, and leaves them; words and names of files are UTF-8 for it where LC_ALL says so.
export WINEPREFIX="$prefix" WINEDEBUG=-all TMPDIR="$prefix" LC_ALL=C.UTF-8
# At once: what it would write down for the next time goes with the folder.
trap 'WINEPREFIX="$prefix" "${WINESERVER:-${wine%/*}/wineserver}" -k9 >/dev/null 2>&1; rm -rf "$prefix"' EXIT
trap 'exit 143' HUP INT TERM
mkdir -p "$prefix/dosdevices" "$prefix/drive_c/windows/system32"
ln -s ../drive_c "$prefix/dosdevices/c:"
ln -s / "$prefix/dosdevices/z:"
sockets=
grep -qa WS2_32.dll "$1" && sockets="ws2_32 ucrtbase"
for name in ntdll kernel32 kernelbase $sockets; do ln -s "$libraries/$name.dll" "$prefix/drive_c/windows/system32/"; done
# Without these wine would first lay a whole Windows.
echo disable > "$prefix/.update-timestamp"
export WINEDLLOVERRIDES=wineboot.exe=d
"$wine" "$@"
