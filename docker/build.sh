#!/usr/bin/env bash
# Makes the broker image of the tests and prints its name on the last line of standard output; the rest goes to
# standard error. A second run with nothing changed takes a second or two.
#
# `docker/build.sh base` makes only the image to build on, which needs no Python and no jars yet.
# `docker/build.sh images` makes jbm-kafka-worker, -sidecar, -console and -exporter (images.Dockerfile); it prints each.
# JBM_IMAGE_BASE names one that is there. Without it: one made here before, else the public one of the Dockerfile if it
# can be had, else one made here of the distribution's packages. JBM_IMAGE_BASE=local: do not ask a registry.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
devbroker=$top/jbm_kafka/devbroker
public_base=$(sed -n 's/^ARG BASE=//p' "$here/Dockerfile")
local_base=jbm-kafka-base:java17-python3
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
  say "making a base of $codename with Java and Python"
  debootstrap --variant=minbase --include=openjdk-17-jre-headless,python3-venv,libsasl2-2 "$codename" "$root" "$mirror" >&2
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/locale
  tar -C "$root" --one-file-system -czf "$tarball.partial" .
  mv "$tarball.partial" "$tarball"
  rm -rf "$root"
  trap - EXIT
}

import_local_base() {
  local tarball=$cache/base-java17-python3.tar.gz
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
  if [ -z "$wanted" ] && [ ! -f "$cache/base-java17-python3.tar.gz" ]; then
    if have_image "$public_base" || timeout 120 docker pull --quiet "$public_base" > /dev/null 2>&1; then
      echo "$public_base"; return
    fi
    say "$public_base cannot be had here"
  fi
  import_local_base
  echo "$local_base"
}

# With JBM_IMAGE_BASE=local no registry is asked in the build: this machine makes all wheels, for the Python that it has
# in common with that base. Any other base needs Python 3.11 or newer; without a name it is that of images.Dockerfile.
make_images() {
  local context target base=${JBM_IMAGE_BASE:-} made=()
  context=$(mktemp -d)
  trap "rm -rf '$context'" EXIT
  mkdir "$context/dist" "$context/docker"
  cp "$top/constraints.txt" "$context/"
  cp "$here/jbm-kafka.toml" "$context/docker/"
  say "building the wheel"
  make --no-print-directory --directory "$top" console-scripts >&2
  (cd "$top" && "$python" -m build --no-isolation --wheel --outdir "$context/dist" .) > "$context/build.log" 2>&1 ||
    { cat "$context/build.log" >&2; exit 1; }
  if [ "$base" = local ]; then
    base=$(choose_base)
    "$python" -m pip wheel --quiet --constraint "$top/constraints.txt" --wheel-dir "$context/dist/wheels" \
      "$(echo "$context"/dist/jbm_kafka-*.whl)[amqp,console,metrics]" >&2
    rm "$context"/dist/wheels/jbm_kafka-*.whl
  fi
  for target in worker sidecar console exporter; do
    say "building jbm-kafka-$target"
    docker build --quiet ${base:+--build-arg "BASE=$base"} --file "$here/images.Dockerfile" --target "$target" \
      --tag "jbm-kafka-$target" "$context" > "$context/build.log" 2>&1 ||
      { cat "$context/build.log" >&2; say "the image of $target could not be built"; exit 1; }
    made+=("jbm-kafka-$target")
  done
  printf '%s\n' "${made[@]}"
}

docker version > /dev/null 2>&1 || { say "no Docker engine answers"; exit 1; }
python=$top/.venv/bin/python
[ -x "$python" ] || python=python3
# The classic builder is in every engine; what it says (that it is old) matters only when it fails.
export DOCKER_BUILDKIT=0
if [ "${1:-}" = images ]; then make_images; exit; fi
base=$(choose_base)
if [ "${1:-}" = base ]; then echo "$base"; exit; fi
jars=$(cd "$top" && "$python" -m jbm_kafka.devbroker)
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$devbroker/pom.xml")
image=jbm-kafka-broker:$version

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/jars"
cp -p "$jars"/*.jar "$context/jars/"
cp -p "$devbroker/common.properties" "$devbroker/log4j2.properties" "$here/start.sh" "$context/"
docker build --quiet --build-arg "BASE=$base" --file "$here/Dockerfile" --tag "$image" "$context" \
  > "$context/build.log" 2>&1 || { cat "$context/build.log" >&2; say "the image could not be built"; exit 1; }
echo "$image"
