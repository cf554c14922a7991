import type { Span } from "./spans.ts";

/** Where to send spans, by OTLP over HTTP. */
export type ExporterSettings = { url: string; headers: Record<string, string>; serviceName: string };

const batchWindowMs = 1_000;
const batchSize = 512;
/**
 * Maximum number of spans that wait or are being sent. Further spans are dropped, because losing telemetry is better
 * than running out of memory.
 */
const maxUnsent = 4_096;
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
  let unsent = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let finishBatch: () => void = () => {};
  let failing = false;
  const batches = new Set<Promise<void>>();

  function add(spans: readonly Span[]): void {
    if (unsent + spans.length > maxUnsent) return;
    unsent += spans.length;
    if (waiting.length === 0) {
      waitUntil(new Promise<void>((resolve) => (finishBatch = resolve)));
      timer = setTimeout(sendWaiting, batchWindowMs);
    }
    waiting.push(...spans);
    if (waiting.length >= batchSize) sendWaiting();
  }

  /** Sends the waiting spans now. Resolves when no span is left. */
  async function flush(): Promise<void> {
    sendWaiting();
    await Promise.all(batches);
  }

  function sendWaiting(): void {
    if (waiting.length === 0) return;
    clearTimeout(timer);
    const [spans, finish] = [waiting, finishBatch];
    waiting = [];
    const batch = deliver(spans).finally(() => {
      unsent -= spans.length;
      batches.delete(batch);
      finish();
    });
    batches.add(batch);
  }

  async function deliver(spans: readonly Span[]): Promise<void> {
    try {
      await send(spans);
      failing = false;
    } catch {
      if (!failing) report(new ExportFailed());
      failing = true;
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
