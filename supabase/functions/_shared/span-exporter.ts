import type { Span } from "./spans.ts";

/** Where to send spans, by OTLP over HTTP. */
export type ExporterSettings = { url: string; headers: Record<string, string>; serviceName: string };

const batchWindowMs = 1_000;
const batchSize = 512;
/**
 * Maximum number of spans waiting to be sent. Further spans are dropped, because losing telemetry is better than
 * running out of memory.
 */
const maxWaiting = 4_096;
const timeoutMs = 5_000;

/** The collector couldn't be reached, or it refused the spans. */
class ExportFailed extends Error {
  override readonly name = "ExportFailed";
}

/**
 * Creates an exporter that sends spans in batches in the background. It drops spans that can't be sent, and reports
 * only the first of consecutive failures.
 */
export function createExporter(
  { url, headers, serviceName }: ExporterSettings,
  { waitUntil, report }: { waitUntil: (work: Promise<unknown>) => void; report: (error: unknown) => void },
) {
  let waiting: Span[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let finishBatch: () => void = () => {};
  let failing = false;

  function add(spans: readonly Span[]): void {
    if (waiting.length + spans.length > maxWaiting) return;
    if (waiting.length === 0) {
      waitUntil(new Promise<void>((resolve) => (finishBatch = resolve)));
      timer = setTimeout(flush, batchWindowMs);
    }
    waiting.push(...spans);
    if (waiting.length >= batchSize) flush();
  }

  async function flush(): Promise<void> {
    if (waiting.length === 0) return;
    clearTimeout(timer);
    const [spans, finish] = [waiting, finishBatch];
    waiting = [];
    try {
      await send(spans);
      failing = false;
    } catch {
      if (!failing) report(new ExportFailed());
      failing = true;
    } finally {
      finish();
    }
  }

  async function send(spans: readonly Span[]): Promise<void> {
    const resource = { attributes: [{ key: "service.name", value: { stringValue: serviceName } }] };
    const scopeSpans = [{ scope: { name: "gatehouse" }, spans }];
    const response = await fetch(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans }] }),
      redirect: "error",
      signal: AbortSignal.timeout(timeoutMs),
    });
    await response.body?.cancel();
    if (!response.ok) throw new ExportFailed();
  }

  return { add, flush };
}
