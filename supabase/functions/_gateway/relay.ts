import { errorBody, GatewayError } from "./errors.ts";
import { ClientLeft, type ProviderAnswer, ProviderFailure } from "./providers/provider.ts";
import type { CallUse, OpenRun, RunEnd } from "./run.ts";
import type { StreamReader } from "./stream-reader.ts";

const encoder = new TextEncoder();
/** A provider that has said that it is done closes soon, and its connection can then be used again. */
const closingMs = 1_000;
const stepStatus = { succeeded: "succeeded", failed: "failed", cancelled: "aborted" } as const;

type Controller = ReadableStreamDefaultController<Uint8Array>;

/**
 * Passes a provider's stream on as it comes, at the client's pace, and ends it with the surface's completion; or, when
 * it fails, with one error event. A client that leaves cancels the provider call, or has it read to its end where the
 * provider is paid for all of it. However it ends, the run is settled once.
 */
export function relayStream(options: {
  answer: ProviderAnswer;
  reader: StreamReader;
  open: OpenRun;
  requestId: string;
  guessedInputTokens: number;
  name: string;
  clientLeft: AbortSignal;
  waitUntil: (work: Promise<unknown>) => void;
}): ReadableStream<Uint8Array> {
  const { answer, reader, open } = options;
  const { facts } = reader;
  let over = false;
  let reading = false;
  let left = false;

  function end(how: Pick<RunEnd, "status" | "httpStatus" | "errorCode">): Record<string, unknown> {
    over = true;
    open.addStep({ type: "model", name: options.name, status: stepStatus[how.status] }, answer.startedAt);
    return open.end({
      ...how,
      use: usedAtEnd(how.status),
      firstByteMs: Math.round(answer.firstByteAt - answer.startedAt),
    });
  }

  function usedAtEnd(status: RunEnd["status"]): CallUse | undefined {
    const route = answer.route.position;
    if (facts.usage) {
      const basis = status === "succeeded" || facts.usageIsFinal ? "final" : "partial";
      return { route, usage: facts.usage, basis };
    }
    // A failure that brought nothing is free, as it is where no stream was asked for.
    if (status === "failed" && facts.events === 0) return undefined;
    const usage = { input_tokens: options.guessedInputTokens, output_tokens: facts.guessedOutputTokens };
    return { route, usage, basis: "guess" };
  }

  /** Reads once. @returns what to pass on, and whether that was all */
  async function advance(): Promise<{ passed: Uint8Array[]; state: "open" | "done" | "failed" }> {
    reading = true;
    const bytes = await answer.read().finally(() => {
      reading = false;
    });
    const passed = bytes ? reader.push(bytes) : reader.end();
    open.progress.input_tokens = facts.usage?.input_tokens ?? options.guessedInputTokens;
    open.progress.output_tokens = facts.usage?.output_tokens ?? facts.guessedOutputTokens;
    if (facts.done || (!bytes && facts.usageIsFinal && !facts.failed)) return { passed, state: "done" };
    return { passed, state: facts.failed || !bytes ? "failed" : "open" };
  }

  function complete(controller: Controller): void {
    const platform = end({ status: "succeeded", httpStatus: 200 });
    controller.enqueue(encoder.encode(reader.completion(platform)));
    controller.close();
    options.waitUntil(finish(answer));
  }

  function fail(controller: Controller, error: GatewayError): void {
    end({ status: "failed", httpStatus: 200, errorCode: error.code });
    answer.cancel();
    controller.enqueue(encoder.encode(`data: ${JSON.stringify(errorBody(error, options.requestId))}\n\n`));
    controller.close();
  }

  async function pull(controller: Controller): Promise<void> {
    for (;;) {
      const { passed, state } = await advance();
      // The client left while we waited.
      if (over) return;
      if (left) return state === "open" ? drain() : endUnheard();
      for (const each of passed) controller.enqueue(each);
      if (state === "done") return complete(controller);
      if (state === "failed") return fail(controller, new GatewayError("provider_error"));
      if (passed.length > 0) return;
    }
  }

  function leave(): void {
    if (over || left) return;
    left = true;
    if (!answer.drains) endUnheard();
    else if (!reading) options.waitUntil(drain());
  }

  /** Reads to the end for the sake of the usage. */
  async function drain(): Promise<void> {
    try {
      while ((await advance()).state === "open");
    } catch {
      // What is known by now is what stands.
    }
    endUnheard();
  }

  function endUnheard(): void {
    if (over) return;
    end({ status: "cancelled", httpStatus: 499 });
    answer.cancel();
  }

  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        if (answer.drains) options.clientLeft.addEventListener("abort", leave, { once: true });
        // A client that has stopped reading does not keep its run open for ever.
        answer.ended.addEventListener("abort", () => {
          if (over || reading) return;
          if (left || options.clientLeft.aborted) endUnheard();
          else fail(controller, new GatewayError("provider_timeout"));
        });
      },
      async pull(controller) {
        const pulling = pull(controller);
        if (answer.drains) options.waitUntil(pulling.catch(() => {}));
        try {
          await pulling;
        } catch (error) {
          if (over) return;
          if (error instanceof ClientLeft || left) {
            endUnheard();
            return controller.error(error);
          }
          fail(controller, new GatewayError(error instanceof ProviderFailure ? error.code : "internal_error"));
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
