/** A span in OTLP/HTTP's JSON format (opentelemetry-proto, trace.proto). */
export type Span = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Attribute[];
  status: { code: number };
};
type Attribute = { key: string; value: Record<string, unknown> };
/** Attributes by name. Those that are undefined are left out. */
export type SpanAttributes = Record<string, string | number | boolean | undefined>;

const kinds = { internal: 1, server: 2, client: 3 } as const;
const statuses = { unset: 0, error: 2 } as const;

export type SpanFacts = {
  name: string;
  kind: keyof typeof kinds;
  hasFailed: boolean;
  /** Milliseconds of the caller's clock. */
  startedAt: number;
  endedAt: number;
  attributes: SpanAttributes;
};

/** Creates spans of one trace from times of a clock that was 0 at `epochMs`, in milliseconds since 1970. */
export function createTrace({ traceId, epochMs }: { traceId: string; epochMs: number }) {
  const nano = (at: number) => `${Math.round((epochMs + at) * 1_000)}000`;
  return {
    createSpan({ name, kind, hasFailed, startedAt, endedAt, attributes }: SpanFacts, parent?: Span): Span {
      return {
        traceId,
        spanId: newId(8),
        ...(parent && { parentSpanId: parent.spanId }),
        name,
        kind: kinds[kind],
        startTimeUnixNano: nano(startedAt),
        endTimeUnixNano: nano(endedAt),
        attributes: formatAttributes(attributes),
        status: { code: hasFailed ? statuses.error : statuses.unset },
      };
    },
  };
}

export function newTraceId(): string {
  return newId(16);
}

function newId(byteCount: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(byteCount));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function formatAttributes(values: SpanAttributes): Attribute[] {
  return Object.entries(values).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: anyValue(value) }],
  );
}

function anyValue(value: string | number | boolean): Record<string, unknown> {
  if (typeof value === "string") return { stringValue: value };
  return typeof value === "boolean" ? { boolValue: value } : { intValue: String(value) };
}
