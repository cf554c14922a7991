{{/* At most 43 characters, because a CronJob's name has at most 52. */}}
{{- define "gatehouse.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- default $name .Values.fullnameOverride | replace "." "-" | trunc 43 | trimSuffix "-" -}}
{{- end }}

{{/* What never changes, for selectors. Takes a list: the root context and the component. */}}
{{- define "gatehouse.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Takes the same list. */}}
{{- define "gatehouse.labels" -}}
{{- $root := index . 0 -}}
{{ include "gatehouse.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "gatehouse.port" -}}
{{ index (dict "web" 3000 "gateway" 8080) . }}
{{- end }}

{{/* Takes the same list. A digest wins over the tag. */}}
{{- define "gatehouse.image" -}}
{{- $root := index . 0 -}}
{{- $image := (index $root.Values (index . 1)).image -}}
{{- $name := printf "%s/%s" (trimSuffix "/" $root.Values.images.registry) $image.repository -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ default $root.Chart.AppVersion $image.tag }}
{{- end -}}
{{- end }}

{{/* Where clients reach the gateway's /v1. */}}
{{- define "gatehouse.aiUrl" -}}
{{- if hasSuffix "/v1" (trimSuffix "/" .Values.aiUrl) }}
{{- fail "aiUrl ends before /v1, such as https://ai.example.com/functions." }}
{{- end -}}
{{ default (printf "%s/functions" (trimSuffix "/" .Values.supabase.url)) .Values.aiUrl }}
{{- end }}

{{/* The host of an address, without its port. */}}
{{- define "gatehouse.host" -}}
{{ regexReplaceAll ":[0-9]+$" (urlParse .).host "" }}
{{- end }}

{{/* The settings that the chart decides. They win over those of the Secret. */}}
{{- define "gatehouse.env.web" -}}
- { name: PORT, value: {{ include "gatehouse.port" "web" | quote }} }
- { name: BASE_URL, value: {{ .Values.baseUrl | quote }} }
- { name: SUPABASE_URL, value: {{ .Values.supabase.url | quote }} }
- { name: SUPABASE_PUBLISHABLE_KEY, value: {{ .Values.supabase.publishableKey | quote }} }
- { name: AI_URL, value: {{ include "gatehouse.aiUrl" . | quote }} }
- { name: TRUSTED_PROXY_HOPS, value: {{ int .Values.web.trustedProxyHops | quote }} }
{{- if .Values.schedule.cronJob }}
- { name: SCHEDULE_LOOP, value: "off" }
{{- end }}
{{- end }}

{{- define "gatehouse.env.gateway" -}}
{{- $memoryMb := int .Values.gateway.memoryMb -}}
- { name: PORT, value: {{ include "gatehouse.port" "gateway" | quote }} }
- { name: SUPABASE_URL, value: {{ .Values.supabase.url | quote }} }
- { name: SUPABASE_PUBLISHABLE_KEY, value: {{ .Values.supabase.publishableKey | quote }} }
- { name: WEB_URL, value: {{ .Values.baseUrl | quote }} }
- { name: AI_TRUSTED_PROXY_HOPS, value: {{ int .Values.gateway.trustedProxyHops | quote }} }
- { name: AI_DRAIN_SECONDS, value: {{ int .Values.gateway.drainSeconds | quote }} }
- { name: AI_MEMORY_LIMIT_MB, value: {{ $memoryMb | quote }} }
- { name: DENO_V8_FLAGS, value: "--max-heap-size={{ div $memoryMb 2 }},--max-semi-space-size=16" }
{{- end }}

{{/* Takes a list: the root context and the component. The gateway's memory is a setting, too. */}}
{{- define "gatehouse.resources" -}}
{{- $values := index (index . 0).Values (index . 1) -}}
{{- $resources := deepCopy $values.resources -}}
{{- if $values.memoryMb -}}
{{- $memory := dict "memory" (printf "%dM" (int $values.memoryMb)) -}}
{{- $resources = mergeOverwrite $resources (dict "requests" $memory "limits" (deepCopy $memory)) -}}
{{- end -}}
{{ toYaml $resources }}
{{- end }}

{{- define "gatehouse.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* The images name their own user, 65532. */}}
{{- define "gatehouse.podSecurity" -}}
runAsNonRoot: true
seccompProfile: { type: RuntimeDefault }
{{- end }}
