
{{/* An image: (list value default-tag). */}}
{{- define "deviceshare.image" -}}
{{- $image := index . 0 -}}
{{- if and $image.digest $image.tag (index . 1) }}{{ fail (printf "image %s: set tag or digest, not both" $image.repository) }}{{ end -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $image.tag | default (index . 1) }}{{ end }}
{{- end }}

{{/* The URLs of the bus, for its clients. */}}
{{- define "deviceshare.bus" -}}
{{- $scheme := ternary "tls" "nats" .Values.bus.authentication -}}
{{- if eq (int .Values.bus.servers) 1 }}{{ $scheme }}://bus:4222
{{- else }}
{{- $urls := list }}
{{- range $i := until (int .Values.bus.servers) }}{{ $urls = append $urls (printf "%s://bus-%d.bus:4222" $scheme $i) }}{{ end }}
{{- join "," $urls }}
{{- end }}
{{- end }}

{{/* What nats-server may store, in GiB: five sixths of its volume, since a full disk stops all writes. */}}
{{- define "deviceshare.busStorage" -}}
{{- div (mul 5 (.Values.bus.storage.size | trimSuffix "Gi" | int64)) 6 }}
{{- end }}

{{/* A quantity of Kubernetes, or GOMEMLIMIT, in bytes. */}}
{{- define "deviceshare.bytes" -}}
{{- $text := kindIs "string" . | ternary (toString .) (printf "%.0f" (float64 .)) -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $unit := regexReplaceAll "^[0-9.]+" $text "" | trimSuffix "B" -}}
{{- printf "%.0f" (mulf (regexFind "^[0-9.]+" $text | float64) (get $units $unit | float64)) }}
{{- end }}

{{/* Security of a pod. fsGroup: files of Secrets can be read. */}}
{{- define "deviceshare.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
fsGroup: 65534
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Security of a container. */}}
{{- define "deviceshare.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Where pods run. (list root name) */}}
{{- define "deviceshare.scheduling" -}}
{{- $root := index . 0 }}
{{- with $root.Values.priorityClass.name }}
priorityClassName: {{ . }}
{{- end }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $root.Values.topologySpread.topologyKey }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {app.kubernetes.io/part-of: deviceshare, app.kubernetes.io/name: {{ index $ 1 }}}
{{- end }}
{{- end }}

{{/* The variables of a client of the bus. */}}
{{- define "deviceshare.busVariables" -}}
- {name: DEVICESHARE_BUS, value: {{ include "deviceshare.bus" . | quote }}}
{{- if .Values.bus.authentication }}
- {name: DEVICESHARE_BUS_CREDENTIALS, value: /etc/deviceshare/bus/seed.nk}
- {name: DEVICESHARE_BUS_CA, value: /etc/deviceshare/bus/ca.crt}
- {name: DEVICESHARE_BUS_CERTIFICATE, value: /etc/deviceshare/bus/tls.crt}
- {name: DEVICESHARE_BUS_KEY, value: /etc/deviceshare/bus/tls.key}
{{- end }}
{{- end }}

{{/* Who may read the health ports of services that review no tokens: whoever has the secret, or everybody. */}}
{{- define "deviceshare.healthAccess" -}}
{{ eq .Values.metrics.access "open" | ternary "open" "secret" }}
{{- end }}

{{/* A service: its ServiceAccount, Deployment and PodDisruptionBudget.
(dict root name command arguments cluster signs replicas); cluster: it has a token of the API server. */}}
{{- define "deviceshare.service" -}}
{{- $values := .root.Values }}
{{- $own := index $values .name -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app.kubernetes.io/part-of: deviceshare}
automountServiceAccountToken: false
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app.kubernetes.io/part-of: deviceshare, app.kubernetes.io/name: {{ .name }}}
spec:
{{- if not (and (eq .name "placement") $values.placement.autoscaling.enabled) }}
  replicas: {{ .replicas }}
{{- end }}
{{- if eq .name "metrics" }}
  # A second one is safe but has no benefit.
  strategy: {type: Recreate}
{{- else }}
  # Several divide the work (docs/scaling.md).
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
{{- end }}
  selector:
    matchLabels: {app.kubernetes.io/part-of: deviceshare, app.kubernetes.io/name: {{ .name }}}
  template:
    metadata:
      labels:
        app.kubernetes.io/part-of: deviceshare
        app.kubernetes.io/name: {{ .name }}
        {{- if ne .name "metrics" }}
        # The Service `health` selects it, for Prometheus.
        app.kubernetes.io/component: scheduling
        {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      automountServiceAccountToken: {{ .cluster }}
      enableServiceLinks: false
      # Longer than a service takes to stop.
      terminationGracePeriodSeconds: 15
      {{- include "deviceshare.scheduling" (list .root .name) | trim | nindent 6 }}
      securityContext:
        {{- include "deviceshare.podSecurity" .root | nindent 8 }}
      containers:
      - name: {{ .name }}
        image: {{ include "deviceshare.image" (list $values.image .root.Chart.AppVersion) }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        args: {{ toJson (prepend .arguments (printf "deviceshare_%s" .name)) }}
        env:
        {{- include "deviceshare.busVariables" .root | nindent 8 }}
        - name: DEVICESHARE_INSTANCE
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - {name: DEVICESHARE_LOG_LEVEL, value: {{ $values.logLevel }}}
        - {name: DEVICESHARE_HEALTH_ADDRESS, value: "0.0.0.0"}
        - {name: DEVICESHARE_HEALTH_PORT, value: "8081"}
        - {name: DEVICESHARE_BUS_REPLICAS, value: {{ $values.bus.servers | quote }}}
        - {name: DEVICESHARE_BUS_STORAGE, value: {{ mul (include "deviceshare.busStorage" .root) 1073741824 | quote }}}
        - {name: DEVICESHARE_HTTP_ACCESS, value: {{ .access }}}
        {{- if ne .access "open" }}
        - {name: DEVICESHARE_HTTP_SECRET_FILE, value: /etc/deviceshare/http/secret}
        {{- end }}
        {{- if .signs }}
        - {name: DEVICESHARE_SIGNING_KEY_FILE, value: /etc/deviceshare/signing/keys}
        {{- end }}
        {{- if eq .name "metrics" }}
        - {name: DEVICESHARE_METRICS_ADDRESS, value: "0.0.0.0"}
        - {name: DEVICESHARE_METRICS_PORT, value: "8080"}
        - {name: DEVICESHARE_METRICS_DETAIL, value: {{ $own.detail }}}
        {{- if and $own.ingress.enabled $own.ingress.host }}
        - {name: DEVICESHARE_HTTP_HOSTS, value: {{ $own.ingress.host | quote }}}
        {{- end }}
        {{- end }}
        {{- with $values.tracing }}
        {{- if .endpoint }}
        - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }}}
        - {name: OTEL_EXPORTER_OTLP_PROTOCOL, value: {{ .protocol }}}
        - {name: OTEL_TRACES_SAMPLER, value: parentbased_traceidratio}
        - {name: OTEL_TRACES_SAMPLER_ARG, value: {{ .samplingRatio | quote }}}
        {{- end }}
        {{- end }}
        ports:
        - {name: health, containerPort: 8081}
        {{- if eq .name "metrics" }}
        - {name: metrics, containerPort: 8080}
        {{- end }}
        securityContext:
          {{- include "deviceshare.containerSecurity" .root | nindent 10 }}
        startupProbe:
          httpGet: {path: /healthz, port: health}
          periodSeconds: 2
          failureThreshold: 60
        livenessProbe:
          httpGet: {path: /healthz, port: health}
          periodSeconds: 10
          timeoutSeconds: 5
          # The service waits for an unreachable bus: a restart does not help.
          failureThreshold: 30
        readinessProbe:
          httpGet: {path: /readyz, port: health}
          periodSeconds: 5
          timeoutSeconds: 5
        resources: {{ toJson $own.resources }}
        {{- $mounts := list }}
        {{- if $values.bus.authentication }}{{ $mounts = append $mounts "bus" }}{{ end }}
        {{- if .signs }}{{ $mounts = append $mounts "signing" }}{{ end }}
        {{- if ne .access "open" }}{{ $mounts = append $mounts "http" }}{{ end }}
        {{- if $mounts }}
        volumeMounts:
        {{- range $mounts }}
        - {name: {{ . }}, mountPath: /etc/deviceshare/{{ . }}, readOnly: true}
        {{- end }}
      volumes:
      {{- range $mounts }}
      - name: {{ . }}
        secret: {secretName: {{ eq . "bus" | ternary (printf "deviceshare-bus-%s" $.name) (printf "deviceshare-%s" .) }}, defaultMode: 0440}
      {{- end }}
        {{- end }}
{{- if and $values.podDisruptionBudgets (ne .name "metrics") }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app.kubernetes.io/part-of: deviceshare}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {app.kubernetes.io/part-of: deviceshare, app.kubernetes.io/name: {{ .name }}}
{{- end }}
{{- end }}

{{/* The names of all Secrets, as JSON. */}}
{{- define "deviceshare.secrets" -}}
["deviceshare-bus-server", "deviceshare-bus-setup", "deviceshare-bus-inventory", "deviceshare-bus-placement",
  "deviceshare-bus-binder", "deviceshare-bus-metrics", "deviceshare-bus-reader", "deviceshare-bus-admin", "deviceshare-signing", "deviceshare-http"]
{{- end }}

{{/* CEL: whether a pattern of files/pod-annotations.yaml reserves the annotation `name`, which users may not set. */}}
{{- define "deviceshare.reservedByPattern" -}}
{{- $annotations := .Files.Get "files/pod-annotations.yaml" | fromYaml }}
{{- $conditions := list }}
{{- $exceptions := list }}
{{- range $annotations.reserved }}
{{- if contains "*" . }}
{{- $ends := splitList "*" . }}
{{- $condition := printf "name.startsWith('%s')" (first $ends) }}
{{- if last $ends }}{{ $condition = printf "%s && name.endsWith('%s')" $condition (last $ends) }}{{ end }}
{{- $conditions = append $conditions $condition }}
{{- $pattern := printf "^%s$" (replace "*" ".*" .) }}
{{- range $annotations.users }}{{ if regexMatch $pattern . }}{{ $exceptions = append $exceptions . }}{{ end }}{{ end }}
{{- end }}
{{- end -}}
({{ join " ||\n " $conditions }}) &&
!(name in {{ include "deviceshare.celList" $exceptions }})
{{- end }}

{{/* A list of texts in CEL. */}}
{{- define "deviceshare.celList" -}}
[
{{- range $index, $text := . }}{{ if $index }},{{ end }}
  '{{ $text }}'
{{- end }}
]
{{- end }}

{{/* A list in CEL: the annotations of pods that files/pod-annotations.yaml reserves by name. */}}
{{- define "deviceshare.reservedNames" -}}
{{- $names := list }}
{{- range (.Files.Get "files/pod-annotations.yaml" | fromYaml).reserved }}
{{- if not (contains "*" .) }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- include "deviceshare.celList" $names }}
{{- end }}
