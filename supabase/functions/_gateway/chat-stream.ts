import { errorBody, GatewayError } from "./errors.ts";
import { ClientLeft, type ProviderAnswer, ProviderFailure } from "./provider.ts";
import type { OpenRun, RunEnd } from "./run.ts";
import { createSseScanner } from "./sse.ts";
import type { UsageBound } from "./usage.ts";

const encoder = new TextEncoder();
/** A provider that has said `[DONE]` closes soon, and its connection can then be used again. */
const closingMs = 1_000;
const stepStatus = { succeeded: "succeeded", failed: "failed", cancelled: "aborted" } as const;

/**
 * Passes a provider's stream on as it comes, at the client's pace, and ends it with `response.completed` and `[DONE]`;
 * or, when it fails, with one error event. A client that leaves cancels the provider call. However it ends, the run
 * is settled once.
 */
export function relayChatStream(options: {
  answer: ProviderAnswer;
  open: OpenRun;
  keepUsageChunk: boolean;
  usageBound: UsageBound;
  requestId: string;
  guessedInputTokens: number;
  name: string;
  clientLeft: AbortSignal;
  waitUntil: (work: Promise<unknown>) => void;
}): ReadableStream<Uint8Array> {
  const { answer, open } = options;
  const scanner = createSseScanner({ keepUsageChunk: options.keepUsageChunk, usageBound: options.usageBound });
  const { facts } = scanner;
  let over = false;
  let reading = false;

  function end(how: Pick<RunEnd, "status" | "httpStatus" | "errorCode">): Record<string, unknown> {
    over = true;
    open.addStep({ type: "model", name: options.name, status: stepStatus[how.status] }, answer.startedAt);
    return open.end({
      ...how,
      ...countsAtEnd(how.status),
      route: answer.route,
      firstByteMs: Math.round(answer.firstByteAt - answer.startedAt),
    });
  }

  /** spec.md, Events: which counts stand, and what they are called. */
  function countsAtEnd(status: RunEnd["status"]): Pick<RunEnd, "usage" | "source" | "estimated"> {
    const complete = status === "succeeded";
    if (facts.usage) {
      const source = complete || facts.usageIsFinal ? "provider" : "provider_partial";
      return { usage: facts.usage, source, estimated: false };
    }
    // A failure that brought nothing is free, as it is where no stream was asked for.
    if (status === "failed" && facts.events === 0) return { usage: {}, source: "unavailable", estimated: false };
    const usage = { input_tokens: options.guessedInputTokens, output_tokens: facts.guessedOutputTokens };
    return { usage, source: complete ? "provider_partial" : "estimated_partial", estimated: true };
  }

  function complete(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const platform = end({ status: "succeeded", httpStatus: 200 });
    const { id, created, model } = facts.chunk ?? { id: open.run.run_id, created: 0, model: options.name };
    const data = { id, object: "chat.completion.chunk", created, model, choices: [], platform };
    controller.enqueue(encoder.encode(`event: response.completed\ndata: ${JSON.stringify(data)}\n\ndata: [DONE]\n\n`));
    controller.close();
    options.waitUntil(finish(answer));
  }

  function fail(controller: ReadableStreamDefaultController<Uint8Array>, error: GatewayError): void {
    end({ status: "failed", httpStatus: 200, errorCode: error.code });
    answer.cancel();
    controller.enqueue(encoder.encode(`data: ${JSON.stringify(errorBody(error, options.requestId))}\n\n`));
    controller.close();
  }

  async function pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    for (;;) {
      reading = true;
      const bytes = await answer.read().finally(() => {
        reading = false;
      });
      // The client left while we waited.
      if (over) return;
      const passed = bytes ? scanner.push(bytes) : scanner.end();
      for (const each of passed) controller.enqueue(each);
      open.progress.input_tokens = facts.usage?.input_tokens ?? options.guessedInputTokens;
      open.progress.output_tokens = facts.usage?.output_tokens ?? facts.guessedOutputTokens;
      if (facts.done || (!bytes && facts.usageIsFinal)) return complete(controller);
      if (facts.failed || !bytes) return fail(controller, new GatewayError("provider_error"));
      if (passed.length > 0) return;
    }
  }

  function leave(): void {
    if (over) return;
    end({ status: "cancelled", httpStatus: 499 });
    answer.cancel();
  }

  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // A client that has stopped reading does not keep its run open for ever.
        answer.ended.addEventListener("abort", () => {
          if (over || reading) return;
          if (options.clientLeft.aborted) leave();
          else fail(controller, new GatewayError("provider_timeout"));
        });
      },
      async pull(controller) {
        try {
          await pull(controller);
        } catch (error) {
          if (over) return;
          if (!(error instanceof ClientLeft)) {
            return fail(controller, new GatewayError(error instanceof ProviderFailure ? error.code : "internal_error"));
          }
          leave();
          controller.error(error);
        }
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  );
}

/** Reads on to the end, so that the connection stays good; not for long. */
async function finish(answer: ProviderAnswer): Promise<void> {
  const timer = setTimeout(answer.cancel, closingMs);
  try {
    while (await answer.read());
  } catch {
    // Whatever comes after the end is nobody's loss.
  } finally {
    clearTimeout(timer);
  }
}
