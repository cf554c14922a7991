import type { Run } from "../database/database.ts";
import { refusalError } from "../database/refusals.ts";
import type { EnvelopeWatch } from "../envelopes/envelope-watch.ts";
import { GatewayError } from "../http/errors.ts";

/** The part of a refusal that describes its envelope. */
type EnvelopeLimit = { kind: "envelope"; id: string; state: string; [more: string]: unknown };

/**
 * Returns the envelope that refused a call and is open, so that it may be raised, and what the call needs, if its caller
 * may see cost. Returns undefined for any other error.
 */
export function getOpenEnvelope(error: unknown): { limit: EnvelopeLimit; needUsd: number | undefined } | undefined {
  if (!(error instanceof GatewayError) || error.code !== "envelope_exhausted") return undefined;
  const { limit, need } = error.options.details as { limit: EnvelopeLimit; need?: { usd?: number } };
  return limit.state === "open" ? { limit, needUsd: need?.usd } : undefined;
}

/** Returns the refusal of a call whose envelope has ended while it waited. */
export function refuseEnded(limit: EnvelopeLimit, state: "ended" | "expired"): GatewayError {
  return refusalError({ refused: "envelope_exhausted", limit: { ...limit, state } });
}

/**
 * Follows the envelope that holds a run. Returns a signal that aborts when the client leaves, or when the envelope's
 * owner stops it: the reason is then the error for the client.
 * @returns the signal, and a function to call when the run has ended
 */
export function followEnvelope(
  watch: EnvelopeWatch["watch"],
  { run, envelope, clientSignal }: { run: Run; envelope: NonNullable<Run["envelope"]>; clientSignal: AbortSignal },
): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController();
  const leave = () => controller.abort(clientSignal.reason);
  clientSignal.addEventListener("abort", leave, { once: true });
  if (clientSignal.aborted) leave();
  const { id, label } = envelope;
  const unwatch = watch(id, ({ state }) => {
    if (state !== "ended") return;
    controller.abort(refuseEnded({ kind: "envelope", id, label, workspace_id: run.workspace_id, state }, state));
  });
  return { signal: controller.signal, release: unwatch };
}

/** Returns the error for the client of a call that the owner of its envelope stopped; otherwise undefined. */
export function getStopError(signal: AbortSignal): GatewayError | undefined {
  return signal.reason instanceof GatewayError ? signal.reason : undefined;
}

/** Returns the answer of a call, or rejects as soon as the call is stopped, even if the provider answers to the end. */
export function answerUnlessStopped(answering: Promise<Response>, signal: AbortSignal): Promise<Response> {
  return new Promise((resolve, reject) => {
    let isAnswered = false;
    function stop(): void {
      const error = getStopError(signal);
      if (!error || isAnswered) return;
      reject(error);
      // A response that arrives later has no reader.
      answering.then(
        (response) => response.body?.cancel(),
        () => {},
      );
    }
    signal.addEventListener("abort", stop, { once: true });
    answering.then((response) => {
      isAnswered = true;
      resolve(response);
    }, reject);
  });
}
