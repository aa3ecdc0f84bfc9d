{{- /* The name of every object, as charts have it; 63 characters, as labels may have. */}}
{{- define "keyferry.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- /* What never changes in a release. The name is not that of nameOverride: others find an agent by it. */}}
{{- define "keyferry.selectorLabels" -}}
app.kubernetes.io/name: keyferry
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end }}

{{- define "keyferry.labels" -}}
{{ include "keyferry.selectorLabels" . }}
app.kubernetes.io/part-of: keyferry
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "keyferry.image" -}}
{{- $repository := required "image.repository is required, since keyferry has no public image: build one with 'make image', push it, and --set image.repository=REGISTRY/keyferry (docs/kubernetes.md)" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "keyferry.socketFolder" -}}
{{ .Values.node.plugins }}/keyferry
{{- end }}

{{- define "keyferry.hasShim" -}}
{{- if or .Values.shim.inFrontOf .Values.shim.beside }}yes{{ end -}}
{{- end }}

{{- /* Whether the provider config is a file in the folder of plugins, which is mounted anyway. */}}
{{- define "keyferry.isConfigInside" -}}
{{- if hasPrefix (printf "%s/" .Values.node.binDir) .Values.node.providerConfig }}yes{{ end -}}
{{- end }}

{{- /* The folder that the installer writes to add its entry: a file is replaced by a rename in it. Empty if none. */}}
{{- define "keyferry.entryFolder" -}}
{{- if and .Values.shim.matchImages (not (include "keyferry.isConfigInside" .)) -}}
{{- if eq .Values.node.providerConfigType "Directory" }}{{ .Values.node.providerConfig }}{{ else }}{{ dir .Values.node.providerConfig }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "keyferry.metricsAddress" -}}
{{- if .Values.metrics.address -}}
{{ .Values.metrics.address }}
{{- else if .Values.hostNetwork -}}
127.0.0.1
{{- else -}}
$(POD_IP)
{{- end -}}
{{- end }}

{{- /* The security context of a container; the argument is its user. */}}
{{- define "keyferry.unprivileged" -}}
runAsUser: {{ . }}
runAsGroup: {{ . }}
{{- if . }}
runAsNonRoot: true
{{- end }}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop:
  - ALL
{{- end }}

{{- /* What the schema cannot say: which values exclude each other. */}}
{{- define "keyferry.check" -}}
{{- range list "apiVersion" "kind" "socket" "binDir" "providerConfig" "metrics" -}}
{{- if hasKey $.Values.config . -}}
{{- fail (printf "config.%s: the chart sets it; see node and metrics" .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.shim.inFrontOf .Values.shim.beside -}}
{{- fail "shim: give inFrontOf or beside, not both" -}}
{{- end -}}
{{- if and .Values.shim.plugin (not .Values.shim.beside) -}}
{{- fail "shim.plugin is for shim.beside: in front of a plugin, that plugin is run without the agent" -}}
{{- end -}}
{{- if and .Values.shim.matchImages (not .Values.shim.beside) -}}
{{- fail "shim.matchImages is for shim.beside: in front of a plugin, the kubelet's config has its provider already" -}}
{{- end -}}
{{- if eq (include "keyferry.entryFolder" .) (dir .Values.node.plugins) -}}
{{- fail (printf "shim.matchImages: the installer would write in %s, where the kubelet has the volumes of all pods; add the entry yourself" (dir .Values.node.plugins)) -}}
{{- end -}}
{{- if eq (int .Values.agentUser) 65534 -}}
{{- fail "agentUser: 65534 is every user that a user namespace does not know" -}}
{{- end -}}
{{- if and .Values.agentUser (not .Values.shim.inFrontOf) (not .Values.shim.beside) -}}
{{- fail "agentUser: without a shim the agent runs as root (0), since the shim's installation gives it the socket's folder" -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.podMonitor needs metrics.enabled" -}}
{{- end -}}
{{- $address := include "keyferry.metricsAddress" . -}}
{{- if and .Values.metrics.podMonitor.enabled (or (hasPrefix "127." $address) (has $address (list "localhost" "[::1]"))) -}}
{{- fail (printf "metrics.podMonitor: the figures are on loopback (%s), where Prometheus does not get them; metrics.address=$(POD_IP) puts them at the node's address, where everyone who reaches it can read them" $address) -}}
{{- end -}}
{{- end }}
