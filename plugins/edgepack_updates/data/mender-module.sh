#!/bin/sh
# A Mender update module for bundles: /usr/share/mender/modules/v3/edgepack. The payload is a bundle's .tar.zst; the bundle in use is
# $EDGEPACK_HOME/current, a link.
set -e
home=${EDGEPACK_HOME:-/data/edgepack}
state=$1 work=$2
link() { ln -s "$1" "$home/.link" && mv -T "$home/.link" "$home/$2"; }

case $state in
  NeedsArtifactReboot) echo No ;;
  SupportsRollback) echo Yes ;;
  ArtifactInstall)
    mkdir -p "$home"
    rm -rf "$home/.link" "$home/previous"
    new=$(mktemp -d "$home/bundle-XXXXXX")
    chmod 755 "$new"
    tar -xf "$work"/files/*.tar.zst -C "$new" --strip-components=1
    "$new/embed" --check || { rm -rf "$new"; exit 1; }
    # None leads to nothing.
    link "$(readlink "$home/current" || echo none)" previous
    link "${new##*/}" current
    sync ;;
  ArtifactRollback)
    [ ! -L "$home/previous" ] || link "$(readlink "$home/previous")" current
    [ -e "$home/current" ] || rm -f "$home/current" ;;
  Cleanup)
    rm -f "$home/previous" "$home/.link"
    for each in "$home"/bundle-*; do
      [ "$(readlink -f "$each")" = "$(readlink -f "$home/current")" ] || rm -rf "$each"
    done ;;
esac
