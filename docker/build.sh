#!/usr/bin/env bash
# Makes the broker image of the tests and prints its name on the last line of standard output; the rest goes to
# standard error. A second run with nothing changed takes a second or two.
#
# `docker/build.sh base` makes only the image to build on, which needs no Python and no jars yet.
# JBM_IMAGE_BASE names one that is there. Without it: one made here before, else the public one of the Dockerfile if it
# can be had, else one made here of the distribution's packages. JBM_IMAGE_BASE=local: do not ask a registry.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
devbroker=$top/jbm_kafka/devbroker
public_base=$(sed -n 's/^ARG BASE=//p' "$here/Dockerfile")
local_base=jbm-kafka-base:local
cache=${JBM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/jbm-kafka}

say() { echo "docker/build.sh: $*" >&2; }

have_image() { docker image inspect "$1" > /dev/null 2>&1; }

# The distribution's own mirror and release, as apt knows them.
make_rootfs() {
  local tarball=$1 codename mirror root
  [ "$(id -u)" = 0 ] || { say "no base image can be had: a registry is out of reach, and making one needs root"; exit 1; }
  command -v debootstrap > /dev/null || { apt-get update -qq; apt-get install -y -qq debootstrap; } >&2
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' \
    | awk -v codename="$codename" '$1 == codename && $2 == "main" {print $3; exit}')
  [ -n "$mirror" ] || { say "apt knows no mirror of $codename; name a base image in JBM_IMAGE_BASE"; exit 1; }
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  say "making a base of $codename with a Java runtime"
  debootstrap --variant=minbase --include=openjdk-17-jre-headless "$codename" "$root" "$mirror" >&2
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/locale
  tar -C "$root" --one-file-system -czf "$tarball.partial" .
  mv "$tarball.partial" "$tarball"
  rm -rf "$root"
  trap - EXIT
}

import_local_base() {
  local tarball=$cache/base-java17.tar.gz
  mkdir -p "$cache"
  (
    flock 9
    [ -f "$tarball" ] || make_rootfs "$tarball"
  ) 9> "$tarball.lock"
  docker import "$tarball" "$local_base" > /dev/null
}

choose_base() {
  local wanted=${JBM_IMAGE_BASE:-}
  if [ -n "$wanted" ] && [ "$wanted" != local ]; then echo "$wanted"; return; fi
  if have_image "$local_base"; then echo "$local_base"; return; fi
  if [ -z "$wanted" ] && [ ! -f "$cache/base-java17.tar.gz" ]; then
    if have_image "$public_base" || timeout 120 docker pull --quiet "$public_base" > /dev/null 2>&1; then
      echo "$public_base"; return
    fi
    say "$public_base cannot be had here"
  fi
  import_local_base
  echo "$local_base"
}

docker version > /dev/null 2>&1 || { say "no Docker engine answers"; exit 1; }
base=$(choose_base)
if [ "${1:-}" = base ]; then echo "$base"; exit; fi
python=$top/.venv/bin/python
[ -x "$python" ] || python=python3
jars=$(cd "$top" && "$python" -m jbm_kafka.devbroker)
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$devbroker/pom.xml")
image=jbm-kafka-broker:$version

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/jars"
cp -p "$jars"/*.jar "$context/jars/"
cp -p "$devbroker/common.properties" "$devbroker/log4j2.properties" "$here/start.sh" "$context/"
# The classic builder is in every engine; what it says (that it is old) matters only when it fails.
export DOCKER_BUILDKIT=0
docker build --quiet --build-arg "BASE=$base" --file "$here/Dockerfile" --tag "$image" "$context" \
  > "$context/build.log" 2>&1 || { cat "$context/build.log" >&2; say "the image could not be built"; exit 1; }
echo "$image"
