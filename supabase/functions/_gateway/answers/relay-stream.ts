import type { AttemptFailure } from "../../_shared/attempt.ts";
import { getStopError } from "../calls/held-calls.ts";
import { type ErrorShape, GatewayError, openaiErrors, toGatewayError } from "../http/errors.ts";
import { startTimeLimit, type TimeLimit } from "../http/time-limit.ts";
import type { TimeLimits } from "../providers/limits.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { ClientLeft, ProviderFailure, refusalFailure } from "../providers/provider-failure.ts";
import type { OpenRun, Platform, RunEnd } from "../runs/run.ts";
import type { CallUse } from "../usage/usage.ts";
import { type OutputReservation, takeInPieces } from "./output-reservation.ts";
import { isContentComplete, type StreamReader } from "./stream-reader.ts";
import { countOutputTokens, readInputTokens, readStepUse, type StreamStep } from "./stream-step.ts";

const encoder = new TextEncoder();
/** How long to wait for a provider to close a stream after its last event, so that its connection can be reused. */
const drainTimeoutMs = 1_000;
const stepStatus = { succeeded: "succeeded", failed: "failed", cancelled: "aborted" } as const;

type Controller = ReadableStreamDefaultController<Uint8Array>;
type StepState = "open" | "done" | "failed";
/**
 * `idle`: waits for the client to read on. `reading`: reads the stream of the current provider call, or reserves more of
 * its output. `between`: that call has ended, and a next one may begin. `over`: the run has ended.
 */
type Phase = "idle" | "reading" | "between" | "over";
/**
 * `left`: has disconnected. `cancelled`: has cancelled the stream, or got its last event because the call was stopped, so
 * that the stream can't be closed any more.
 */
type Client = "connected" | "left" | "cancelled";

export type RelayOptions = {
  step: StreamStep;
  /**
   * Called after a provider call succeeds. Returns the next call, or undefined if there is none. Before returning a
   * next call, this function must record the usage of the call that ended.
   */
  next?: (step: StreamStep, use: CallUse) => Promise<StreamStep | undefined>;
  open: OpenRun;
  /** Reserves what the stream costs beyond the expected cost. Absent if its maximum cost is reserved. */
  reservation?: OutputReservation | undefined;
  /** The error format. Defaults to OpenAI's. */
  errors?: ErrorShape | undefined;
  requestId: string;
  name: string;
  clientLeft: AbortSignal;
  /** Returns what keeps a silent stream alive. */
  keepalive: () => string;
  limits: Pick<TimeLimits, "keepaliveMs" | "endMs" | "leftMs">;
  waitUntil: (work: Promise<unknown>) => void;
};

/**
 * Relays a provider's stream at the client's pace. Ends the stream with the surface's completion event, or with one
 * error event if the provider's stream fails. When the client disconnects, cancels the provider call. If the provider
 * charges in full anyway, or only the usage is missing, reads the stream to its end instead. Settles the run exactly
 * once.
 */
export function relayStream(options: RelayOptions): ReadableStream<Uint8Array> {
  const { open, limits, reservation } = options;
  const firstByteMs = Math.round(options.step.answer.firstByteAt - options.step.answer.startedAt);
  let step = options.step;
  let phase: Phase = "idle";
  let client: Client = "connected";
  /** The pull in progress, in which the client waits for bytes. */
  let pulling: Promise<void> | undefined;
  let silence: TimeLimit | undefined;
  /** Limits how long the usage of a finished answer is awaited after the client has left. */
  let usageLimit: TimeLimit | undefined;

  const isOver = () => phase === "over";
  const hasLeft = () => client !== "connected";

  function end(
    outcome: Pick<RunEnd, "status" | "httpStatus" | "errorCode" | "use">,
    failure: AttemptFailure = "invalid_answer",
  ): Platform {
    const isBetween = phase === "between";
    phase = "over";
    silence?.end();
    usageLimit?.end();
    if (!isBetween) {
      const status = stepStatus[outcome.status];
      const { startedAt, attempt } = step.answer;
      const failures = { succeeded: undefined, failed: failure, cancelled: "cancelled" } as const;
      open.addStep({ type: "model", name: options.name, status }, startedAt, attempt(failures[outcome.status]));
    }
    // If the client left, the answer is complete only if the provider's answer was read to its end and no further
    // provider call could follow.
    const whole = outcome.status === "succeeded" || (step.reader.facts.done && !options.next);
    const use = isBetween ? outcome.use : readStepUse(step, outcome.status);
    return open.end({ ...outcome, use, answer: whole ? readAssembledAnswer(step.reader) : undefined, firstByteMs });
  }

  /**
   * Reads the provider's stream until `pass` returns false or the call ends. Without `pass`, discards the bytes.
   * @returns the state of the call
   */
  async function advance(pass?: (bytes: Uint8Array) => boolean): Promise<StepState> {
    const { answer, reader, inputEstimate } = step;
    let state: StepState = "open";
    /**
     * Updates the run's progress and passes bytes on to the client.
     * @returns whether to read more: the stream has not ended and the client wants more
     */
    function digest(pieces: Uint8Array[], hasEnded: boolean): boolean {
      const { facts } = reader;
      open.progress.input_tokens = readInputTokens(facts) ?? inputEstimate.input_tokens;
      open.progress.output_tokens = countOutputTokens(facts);
      if (facts.finished) answer.expectEnd(limits.endMs);
      if (facts.done) state = "done";
      else if (facts.failed || hasEnded) {
        facts.failed = true;
        state = "failed";
      }
      let wantsMore = state === "open" && !(pass && reservation?.isReached(facts));
      // Passes nothing on if the call ended or the client left while the bytes were being read.
      if (pass && (isOver() || hasLeft())) return false;
      for (const piece of pieces) if (pass && !pass(piece)) wantsMore = false;
      return wantsMore;
    }
    phase = "reading";
    try {
      const take = (bytes: Uint8Array) => digest(reader.push(bytes), false);
      const paced = pass && reservation ? takeInPieces(take, answer.unread) : take;
      if (!(await answer.pipe(paced))) digest(reader.end(), true);
    } catch (error) {
      // All content has arrived, so the failure lost only usage and the terminator.
      if (!(error instanceof ProviderFailure && isContentComplete(reader.facts))) throw error;
      digest(reader.end(), true);
    } finally {
      if (!isOver()) phase = "idle";
    }
    return state;
  }

  /**
   * Starts the next provider call, if there is one.
   * @returns whether another call follows
   */
  async function beginNext(controller: Controller): Promise<boolean> {
    if (!options.next) return false;
    const previous = step;
    phase = "between";
    const next = await options.next(previous, readStepUse(previous, "succeeded"));
    phase = "idle";
    if (!next) return false;
    options.waitUntil(drainStream(previous.answer));
    step = next;
    watch(controller);
    return true;
  }

  function complete(controller: Controller): void {
    const platform = end({ status: "succeeded", httpStatus: 200 });
    controller.enqueue(encoder.encode(step.reader.completion(platform)));
    controller.close();
    options.waitUntil(drainStream(step.answer));
  }

  function fail(controller: Controller, error: GatewayError, { use, failure }: Partial<ProviderFailure> = {}): void {
    end({ status: "failed", httpStatus: 200, errorCode: error.code, use }, failure);
    step.answer.cancel();
    closeWith(controller, error);
  }

  function closeWith(controller: Controller, error: GatewayError): void {
    const { errors = openaiErrors, requestId } = options;
    const event = step.reader.failure?.(error, requestId) ?? errors.event(error, requestId);
    controller.enqueue(encoder.encode(event));
    controller.close();
  }

  /** Ends the call when its client leaves, or when the owner of its envelope stops it. */
  function onAbort(controller: Controller): void {
    const stopped = getStopError(options.clientLeft);
    if (!stopped) leave("left");
    else if (!isOver() && !hasLeft()) {
      closeWith(controller, stopped);
      leave("cancelled");
    }
  }

  /**
   * Reserves more output once the stream has reached what is reserved, or ends it.
   * @returns whether the stream continues
   */
  async function reserveMore(controller: Controller): Promise<boolean> {
    const { facts } = step.reader;
    if (!reservation?.isReached(facts)) return true;
    phase = "reading";
    try {
      await reservation.extend(facts);
      if (!isOver()) phase = "idle";
    } catch (error) {
      // Without an answer, the output isn't reserved either.
      if (!isOver()) fail(controller, toGatewayError(error), { failure: "cancelled" });
    }
    return !isOver();
  }

  async function pull(controller: Controller): Promise<void> {
    if (isOver()) return;
    const hasEnough = () => (controller.desiredSize ?? 0) < 0;
    const pass = (bytes: Uint8Array) => {
      controller.enqueue(bytes);
      silence?.restart(limits.keepaliveMs);
      return !hasEnough();
    };
    for (;;) {
      const state = await advance(pass);
      if (isOver()) return;
      if (hasLeft()) return state === "open" ? drain() : endCancelled();
      if (state === "failed") {
        const { error } = step.reader.facts;
        const failure = error === undefined ? undefined : refusalFailure({ status: 200, text: error });
        return fail(controller, failure?.toGatewayError() ?? new GatewayError("provider_error"), failure);
      }
      if (state === "done" && !(await beginNext(controller))) {
        return hasLeft() ? endCancelled() : complete(controller);
      }
      if (hasLeft()) return step.answer.drains ? drain() : endCancelled();
      if (!(await reserveMore(controller)) || hasEnough()) return;
    }
  }

  /** Keeps a stream alive whose client waits for bytes. A client that reads too slowly gets no more of them. */
  function keepAlive(controller: Controller): TimeLimit {
    const limit = startTimeLimit(limits.keepaliveMs, () => {
      const waits = pulling !== undefined && controller.desiredSize === 0;
      if (waits && !hasLeft()) controller.enqueue(encoder.encode(options.keepalive()));
      limit.restart(limits.keepaliveMs);
    });
    return limit;
  }

  function leave(how: "left" | "cancelled"): void {
    const isNew = !isOver() && !hasLeft();
    if (isNew || how === "cancelled") client = how;
    // If the client leaves between two provider calls, the next call detects this when it starts.
    if (!isNew || phase === "between") return;
    const { answer, reader } = step;
    if (reader.facts.finished) usageLimit = startTimeLimit(limits.leftMs, answer.cancel);
    else if (!answer.drains) {
      endCancelled();
      return;
    }
    options.waitUntil(phase === "reading" && pulling ? pulling.catch(() => {}) : drain());
  }

  /** Reads the provider's stream to its end to learn the usage, after the client has left. */
  async function drain(): Promise<void> {
    try {
      await advance();
    } catch {
      // Settles the run with the usage known so far.
      step.reader.facts.failed = true;
    }
    endCancelled();
  }

  function endCancelled(use?: CallUse): void {
    if (isOver()) return;
    const stopped = getStopError(options.clientLeft);
    end({ status: "cancelled", httpStatus: stopped ? 200 : 499, errorCode: stopped?.code, use });
    step.answer.cancel();
  }

  /** Ends the run when its client has stopped reading for too long. */
  function watch(controller: Controller): void {
    const watched = step;
    watched.answer.ended().addEventListener("abort", () => {
      if (phase !== "idle" || step !== watched) return;
      if (!hasLeft() && getStopError(options.clientLeft)) onAbort(controller);
      else if (hasLeft() || options.clientLeft.aborted) endCancelled();
      else fail(controller, new GatewayError("provider_timeout"));
    });
  }

  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        options.clientLeft.addEventListener("abort", () => onAbort(controller), { once: true });
        watch(controller);
        silence = keepAlive(controller);
      },
      async pull(controller) {
        pulling = pull(controller);
        if (options.next || step.answer.drains) options.waitUntil(pulling.catch(() => {}));
        try {
          await pulling;
        } catch (error) {
          if (error instanceof ClientLeft && !hasLeft()) client = "left";
          const failure = error instanceof ProviderFailure ? error : undefined;
          if (hasLeft()) endCancelled(error instanceof ClientLeft ? error.use : failure?.use);
          else if (!isOver()) {
            const code = failure?.code ?? "internal_error";
            fail(controller, error instanceof GatewayError ? error : new GatewayError(code), failure);
          }
        } finally {
          pulling = undefined;
        }
        // Closes without an error: old Deno versions turn an error into a rejection that can't be caught.
        if (client === "left") controller.close();
      },
      cancel: () => leave("cancelled"),
    },
    { highWaterMark: 0 },
  );
}

/** Returns the non-streamed form of a streamed answer, or undefined if the reader did not assemble the answer. */
function readAssembledAnswer({ answer }: StreamReader): RunEnd["answer"] {
  const streamed = answer?.();
  return streamed && { texts: streamed.texts, text: (platform) => JSON.stringify({ ...streamed.value, platform }) };
}

/** Reads the rest of a finished stream for a short time, so that the connection can be reused. */
async function drainStream(answer: ProviderAnswer): Promise<void> {
  const timer = setTimeout(answer.cancel, drainTimeoutMs);
  try {
    while (await answer.read());
  } catch {
    // The answer is complete, so an error while reading the remaining bytes does not matter.
  } finally {
    clearTimeout(timer);
  }
}
