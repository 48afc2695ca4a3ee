#!/bin/sh
# Builds the image of Containerfile and runs it, without a registry of images: as root on Debian, with
# buildah and debootstrap. It takes minutes, so CI does not run it.
# Usage: tests/build/container.sh FOLDER    keeps the base images in FOLDER for the next run
set -eu
project=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:?name a folder}
mkdir -p "$work"
# Chroot isolation needs no cgroups, and vfs no module of the kernel.
export BUILDAH_ISOLATION=chroot
buildah="buildah --root $work/storage --runroot $work/run --storage-driver vfs"

if [ ! -e "$work/base/etc/debian_version" ]; then
  debootstrap --variant=minbase bookworm "$work/base" >"$work/debootstrap.log"
fi
base_image() { # NAME: an image from $work/base, and with `build` also Node and npm of this machine
  container=$($buildah from scratch)
  root=$($buildah mount "$container")
  cp -a "$work/base/." "$root"
  if [ "$1" = build ]; then
    npm=$(readlink -f "$(command -v npm)")
    cp "$project/node_modules/node/bin/node" "$root/usr/bin/node"
    mkdir -p "$root/usr/lib/node_modules"
    cp -a "${npm%/bin/*}" "$root/usr/lib/node_modules/npm"
    ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/bin/npm"
    mkdir -p "$root/etc/ssl/certs"
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    $buildah config --env NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt "$container"
  fi
  $buildah umount "$container" >/dev/null
  $buildah commit --rm "$container" "localhost/dealbell-$1" >/dev/null
}
$buildah inspect --type image localhost/dealbell-run >/dev/null 2>&1 || base_image run
$buildah inspect --type image localhost/dealbell-build >/dev/null 2>&1 || base_image build

$buildah build --format docker --tag localhost/dealbell --file "$project/Containerfile" \
  --build-arg BUILD_IMAGE=localhost/dealbell-build --build-arg RUN_IMAGE=localhost/dealbell-run "$project"

# Run it as a container engine would: its user, the root file system read-only, and a folder for /data.
container=$($buildah from localhost/dealbell)
root=$($buildah mount "$container")
data=$work/data
rm -rf "$data"
install -d -m 700 -o 10001 -g 10001 "$data"
health=$($buildah inspect --format '{{index .Docker.Config.Healthcheck.Test 1}}' "$container")
unshare --mount sh -eu -c '
  root=$1 data=$2 health=$3
  mount --bind "$root" "$root"
  mount --bind "$data" "$root/data"
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  mount -o remount,bind,ro "$root"
  inside() { chroot --userspec=10001:10001 --groups= "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin "$@"; }
  if inside touch /opt/dealbell/written 2>/dev/null; then echo "The file system is not read-only."; exit 1; fi
  chroot --userspec=10001:10001 --groups= "$root" \
    env -i PATH=/usr/local/bin:/usr/bin:/bin DATA_DIR=/data PORT=3333 dealbell start &
  server=$!
  tries=0
  until inside DATA_DIR=/data PORT=3333 sh -c "$health"; do
    tries=$((tries + 1))
    if [ $tries -gt 120 ]; then echo "The health check never passed."; exit 1; fi
    sleep 0.5
  done
  inside DATA_DIR=/data PORT=3333 dealbell relay status
  kill -TERM $server
  wait $server
' sh "$root" "$data" "$health"
ls -A "$data"
$buildah umount "$container" >/dev/null
$buildah rm "$container" >/dev/null
echo "The image was built, is healthy with a read-only file system and without root, and stops."
