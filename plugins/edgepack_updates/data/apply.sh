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
tar -xf "$delta" -C "$work/delta" || fail "$delta is not a delta, or is damaged"

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
  file=$work/new/$path
  mkdir -p "${file%/*}"
  case $how in
    link) links=yes; continue ;;
    keep) cp "$old/$from" "$file" ;;
    whole) zstd -q -d --long=31 "$work/delta/$member" -o "$file" ;;
    patch) zstd -q -d --long=31 --patch-from="$old/$from" "$work/delta/$member" -o "$file" ;;
    *) fail "$delta is damaged" ;;
  esac || fail "$path cannot be made: $delta or $old is damaged"
  is "$file" "$sha256" || fail "$path is not what it should be: $delta or $old is damaged"
  chmod "$mode" "$file"
done <"$work/delta/delta.tsv"
# Each folder is there by now, so that no link is made behind another one.
while IFS='	' read -r how _ _ _ path from _; do
  [ "$how" = link ] || continue
  [ ! -e "$work/new/$path" ] && [ ! -L "$work/new/$path" ] && ln -s "$from" "$work/new/$path" || fail "$delta is damaged"
done <"$work/delta/delta.tsv"
inside=$(readlink -f "$work/new")
find "$work/new" -type l -exec readlink -f {} \; | while read -r to; do
  case $to in "$inside"/*) ;; *) fail "$delta would lead out of $new" ;; esac
done
[ "$whole" ] && is "$work/new/manifest.json" "$manifest" || fail "$delta is damaged"
chmod -R u=rwX,go=rX "$work/new"
sync
mv "$work/new" "$new"
