#!/bin/sh
# Write DISTRIBUTION/install.yaml and uninstall.yaml: what helm renders of the chart, for those who have only kubectl.
#   render.sh [FOLDER]      default: this one; HELM=PROGRAM for a helm that is not on the PATH
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
chart=${here%/*}/helm/keyferry
raw=$(mktemp)
trap 'rm -f "$raw"' EXIT
version=$(sed -n 's/^appVersion: //p' "$chart/Chart.yaml")

# render VALUES [OPTION ...]
render() {
    echo "# Replace the image keyferry:$version by yours, such as by 'images' of kustomize: docs/kubernetes.md shows it."
    echo "# Rendered by $(basename "$0") from the chart; change that."
    "${HELM:-helm}" template keyferry "$chart" --namespace kube-system --kube-version 1.31.0 --values \
        "$@" --set image.repository=keyferry > "$raw"
    # Helm manages none of these objects.
    sed '/^ *\(helm.sh\/chart\|app.kubernetes.io\/managed-by\): /d' "$raw"
}

for values in "$chart"/distributions/*.yaml; do
    name=$(basename "$values" .yaml)
    folder=${1:-$here}/$name
    mkdir -p "$folder"
    render "$values" > "$folder/install.yaml"
    render "$values" --set uninstall=true > "$folder/uninstall.yaml"
done
