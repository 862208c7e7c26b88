#!/bin/sh
# apply.sh DELTA OLD NEW: makes the bundle NEW of the bundle OLD and a delta. Needs tar, find, readlink, sha256sum and zstd 1.4.5 or newer.
set -eu
delta=$1 old=$2 new=$3
fail() { echo "error: $1" >&2; exit 1; }
is() { [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -c 1-64)" = "$2" ]; }

[ ! -e "$new" ] || fail "$new already exists"
work=$(mktemp -d "$new.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/delta" "$work/new"
[ "$(head -c 9 "$delta")" = delta.tsv ] || fail "$delta is not a delta, or is damaged"
# An eighth of a large one has to be there: tar would write the holes, too.
[ $(($(wc -c <"$delta") / 8192)) -le $(($(du -k "$delta" | cut -f 1) + 131072)) ] || fail "$delta is damaged"
case $(tar -tf "$delta") in */*) fail "$delta is damaged" ;; esac
# A plain tar whose first member is the list, and of no folders, holds no more than it has bytes.
tar -xf "$delta" -C "$work/delta" || fail "$delta is damaged"
odd=$(find "$work/delta" ! -type d \( ! -type f -o -size +"$(wc -c <"$delta")"c \))
[ ! "$odd" ] && [ -f "$work/delta/delta.tsv" ] || fail "$delta is damaged"

# What it may unpack to, in kilobytes: 256 MB, or a hundred times what there is.
left=$(du -sk "$delta" "$old/" | { sum=0; while read -r size _; do sum=$((sum + size)); done; echo $((sum * 100)); })
[ "$left" -gt 262144 ] || left=262144
whole='' links=''
while IFS='	' read -r how mode sha256 size path from member; do
  case $how in
    edgepack-delta) [ "$mode" = 1 ] || fail "$delta is of another version"; continue ;;
    old) is "$old/manifest.json" "$mode" || fail "$delta is for another bundle than $old"; continue ;;
    new) manifest=$mode; continue ;;
    end) whole=yes; continue ;;
  esac
  [ "$how" = link ] || [ ! "$links" ] || fail "$delta is damaged"
  case /$path/ in */../*) fail "$delta would write outside of $new" ;; esac
  case $how/$from/ in [!l]*/../*) fail "$delta would read outside of $old" ;; esac
  case $mode in 0644|0755|link) ;; *) fail "$delta is damaged" ;; esac
  case $size in ''|0?*|*[!0-9]*|?????????????*) fail "$delta is damaged" ;; esac
  case ${member%.zst} in -) ;; ''|*[!0-9]*) fail "$delta is damaged" ;; esac
  # Folders take room, too.
  left=$((left - size / 1024 - ${#path}))
  [ "$left" -gt 0 ] || fail "$delta unpacks to far more than its size lets expect"
  file=$work/new/$path
  mkdir -p "${file%/*}"
  case $how in
    link) links=yes; continue ;;
    keep) cp "$old/$from" "$file" ;;
    whole) zstd -q -d -c --long=31 "$work/delta/$member" | head -c $((size + 1)) >"$file" ;;
    patch) zstd -q -d -c --long=31 --patch-from="$old/$from" "$work/delta/$member" | head -c $((size + 1)) >"$file" ;;
    *) fail "$delta is damaged" ;;
  esac || fail "$path cannot be made: $delta or $old is damaged"
  is "$file" "$sha256" && [ "$(wc -c <"$file")" -eq "$size" ] || fail "$path is not what it should be: $delta or $old is damaged"
  chmod "$mode" "$file"
done <"$work/delta/delta.tsv"
# Each folder is there by now, so that no link is made behind another one.
while IFS='	' read -r how _ _ _ path from _; do
  [ "$how" = link ] || continue
  [ ! -e "$work/new/$path" ] && [ ! -L "$work/new/$path" ] || fail "$delta is damaged"
  case $from in /*|-*) fail "$delta would lead out of $new" ;; esac
  ln -s "$from" "$work/new/$path"
done <"$work/delta/delta.tsv"
inside=$(readlink -f "$work/new")
find "$work/new" -type l | while IFS= read -r link; do
  to=$(readlink -f "$link") || to=''
  case $to in "$inside"/*) ;; *) fail "$delta would lead out of $new" ;; esac
done
[ "$whole" ] && is "$work/new/manifest.json" "$manifest" || fail "$delta is damaged"
chmod -R u=rwX,go=rX "$work/new"
sync
mv "$work/new" "$new"
