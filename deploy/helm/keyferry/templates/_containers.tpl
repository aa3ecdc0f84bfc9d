{{- define "keyferry.installer" -}}
- name: shim
  image: {{ include "keyferry.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
  - bridge
  - kubelet
  {{- if .Values.uninstall }}
  - uninstall
  - --all
  {{- else if .Values.shim.inFrontOf }}
  - install
  - --in-front-of
  - $(KEYFERRY_PLUGIN)
  {{- else }}
  - install
  - --beside
  - $(KEYFERRY_PLUGIN)
  {{- with .Values.shim.plugin }}
  - --plugin
  - {{ . }}
  {{- end }}
  {{- range .Values.shim.matchImages }}
  - --match-images
  - {{ . | quote }}
  {{- end }}
  {{- end }}
  - --bin-dir
  - $(KEYFERRY_BIN_DIR)
  {{- if not .Values.uninstall }}
  - --shim
  - native
  {{- end }}
  - --socket
  - $(KEYFERRY_AGENT)
  {{- if not .Values.uninstall }}
  - --replace-others
  {{- end }}
  {{- if and .Values.agentUser (not .Values.uninstall) }}
  - --agent-user
  - {{ .Values.agentUser | int | quote }}
  {{- end }}
  env:
  - name: KEYFERRY_AGENT
    value: {{ include "keyferry.socketFolder" . }}/agent.sock
  - name: KEYFERRY_BIN_DIR
    value: {{ .Values.node.binDir }}
  {{- if not .Values.uninstall }}
  - name: KEYFERRY_PLUGIN
    value: {{ .Values.shim.inFrontOf | default .Values.shim.beside }}
  {{- if .Values.shim.matchImages }}
  - name: KEYFERRY_CONFIG
    value: {{ .Values.node.providerConfig }}
  {{- end }}
  {{- end }}
  resources:
    {{- toYaml .Values.shim.resources | nindent 4 }}
  # Not privileged: it links and writes files in folders of the node, which may belong to other users than root.
  securityContext:
    {{- include "keyferry.unprivileged" 0 | nindent 4 }}
      add:
      {{- if and .Values.agentUser (not .Values.uninstall) }}
      - CHOWN
      {{- end }}
      - DAC_OVERRIDE
      - FOWNER
  volumeMounts:
  {{- if .Values.uninstall }}
  - name: socket-parent
    mountPath: {{ .Values.node.plugins }}
  {{- else if .Values.agentUser }}
  - name: socket
    mountPath: {{ include "keyferry.socketFolder" . }}
  {{- end }}
  - name: bin-dir
    mountPath: {{ .Values.node.binDir }}
  {{- with include "keyferry.entryFolder" . }}
  - name: entry-folder
    mountPath: {{ . }}
  {{- end }}
{{- end }}

{{- define "keyferry.agent" -}}
- name: agent
  image: {{ include "keyferry.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
  - agent
  - run
  env:
  - name: KEYFERRY_AGENT
    value: {{ include "keyferry.socketFolder" . }}/agent.sock
  - name: KEYFERRY_BIN_DIR
    value: {{ .Values.node.binDir }}
  - name: KEYFERRY_CONFIG
    value: {{ .Values.node.providerConfig }}
  {{- if .Values.metrics.enabled }}
  {{- if not .Values.hostNetwork }}
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  {{- end }}
  - name: KEYFERRY_AGENT_METRICS
    value: {{ printf "%s:%d" (include "keyferry.metricsAddress" .) (int .Values.metrics.port) | quote }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if and .Values.metrics.enabled (not .Values.hostNetwork) }}
  # Not declared on the host's network: a new pod would wait for the port of the old one.
  ports:
  - name: metrics
    containerPort: {{ .Values.metrics.port }}
    protocol: TCP
  {{- end }}
  # Neither depends on a cloud, a registry or the last reload.
  livenessProbe:
    exec:
      command:
      - keyferry-probe
      - live
    periodSeconds: 30
    timeoutSeconds: 10
    failureThreshold: 3
  readinessProbe:
    exec:
      command:
      - keyferry-probe
      - ready
    periodSeconds: 10
    timeoutSeconds: 10
    failureThreshold: 3
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  # As root, it has no capability: clients trust a socket of root, and some plugins read files of root.
  securityContext:
    {{- include "keyferry.unprivileged" (int .Values.agentUser) | nindent 4 }}
  volumeMounts:
  - name: config
    mountPath: /etc/keyferry
    readOnly: true
  # The folder, not the socket: a mounted socket stays that of an agent that has ended.
  - name: socket
    mountPath: {{ include "keyferry.socketFolder" . }}
  - name: tmp
    mountPath: /tmp
  - name: bin-dir
    mountPath: {{ .Values.node.binDir }}
    readOnly: true
  {{- if not (include "keyferry.isConfigInside" .) }}
  - name: provider-config
    mountPath: {{ .Values.node.providerConfig }}
    readOnly: true
  {{- end }}
  {{- range $index, $each := .Values.node.readable }}
  - name: node-{{ $index }}
    mountPath: {{ $each.path }}
    readOnly: true
  {{- end }}
{{- end }}

{{- define "keyferry.wait" -}}
- name: wait
  image: {{ include "keyferry.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command:
  - python
  - -I
  - -c
  - import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); signal.sigwait([signal.SIGTERM])
  resources:
    requests:
      cpu: 1m
      memory: 16Mi
    limits:
      memory: 64Mi
  securityContext:
    {{- include "keyferry.unprivileged" 65532 | nindent 4 }}
{{- end }}

{{- define "keyferry.volumes" -}}
{{- if .Values.uninstall }}
# Not the socket's folder, or the kubelet would create it again.
- name: socket-parent
  hostPath:
    path: {{ .Values.node.plugins }}
    type: Directory
{{- else }}
- name: config
  configMap:
    name: {{ include "keyferry.fullname" . }}
- name: socket
  hostPath:
    path: {{ include "keyferry.socketFolder" . }}
    type: DirectoryOrCreate
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 16Mi
{{- end }}
- name: bin-dir
  hostPath:
    path: {{ .Values.node.binDir }}
    type: Directory
{{- if not (include "keyferry.isConfigInside" .) }}
- name: provider-config
  hostPath:
    path: {{ .Values.node.providerConfig }}
    type: {{ .Values.node.providerConfigType }}
{{- end }}
{{- with include "keyferry.entryFolder" . }}
- name: entry-folder
  hostPath:
    path: {{ . }}
    type: Directory
{{- end }}
{{- range $index, $each := .Values.node.readable }}
- name: node-{{ $index }}
  hostPath:
    path: {{ $each.path }}
    type: {{ $each.type }}
{{- end }}
{{- end }}
